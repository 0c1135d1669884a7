package redis_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
	"github.com/regentd/regent/store/redis"
)

// It runs against REDIS_URL, say redis://127.0.0.1:6379.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())

	store, err := redis.Open(ctx, os.Getenv("REDIS_URL"), redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	for _, warning := range store.Warnings() {
		log.Print(warning)
	}

	m := &regent.Member{Store: store, ID: "a", Config: regent.Lock()}
	err = m.Lead(ctx, "stargate:leader", func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		cancel() // only so that this example ends
		<-ctx.Done()
		return nil
	})

	fmt.Println(err)
}

// What a leader writes to a Redis of its own is refused once a newer one has written there.
func ExampleFence() {
	lead := func(ctx context.Context, client rueidis.Client, term regent.Term) error {
		_, err := redis.Fence(ctx, client, term, `redis.call('SET', KEYS[1], ARGV[1])`, []string{"report"},
			[]string{"done"})
		return err
	}
	_ = lead
}
