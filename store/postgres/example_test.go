package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/regentd/regent"
	"github.com/regentd/regent/store/postgres"
)

// It runs against DATABASE_URL, say postgres://app@127.0.0.1/app.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())

	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	m := &regent.Member{Store: store, ID: "a", Config: regent.Lock()}
	err = m.Lead(ctx, "orders", func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		cancel() // only so that this example ends
		<-ctx.Done()
		return nil
	})

	fmt.Println(err)
}

// What a leader writes to its own tables is committed before another leads, or never.
func ExampleFence() {
	write := func(ctx context.Context, pool *pgxpool.Pool, term regent.Term) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)

		if err := postgres.Fence(ctx, tx, term); err != nil {
			return err // the term has ended
		}
		if _, err := tx.Exec(ctx, "UPDATE orders SET billed = true WHERE due < now()"); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_ = write
}
