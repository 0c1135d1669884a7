package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/regentd/regent"
	"github.com/regentd/regent/store/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "regent")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx, cancel := context.WithCancel(context.Background())

	store, err := sqlite.Open(ctx, filepath.Join(dir, "regent.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	m := &regent.Member{Store: store}
	err = m.Lead(ctx, "reports", func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		cancel() // only so that this example ends
		<-ctx.Done()
		return nil
	})

	fmt.Println(err)
	// Output:
	// leading, epoch 1
	// context canceled
}
