package nats_test

import (
	"context"
	"fmt"
	"log"
	"os"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent"
	"github.com/regentd/regent/store/nats"
)

// It runs against NATS_ADDRESS, say nats://10.0.0.1,10.0.0.2,10.0.0.3.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	store, err := nats.Open(ctx, os.Getenv("NATS_ADDRESS"), nats.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	bill := func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		stop() // only so that this example ends
		<-ctx.Done()
		return nil
	}
	m := &regent.Member{Store: store, ID: "a", Config: regent.Cluster()}
	fmt.Println(m.Run(ctx, regent.Duty{Election: "orders", Run: bill}))
}

// What a former leader publishes to a subject is refused once a newer term has published to it.
func ExampleFence() {
	write := func(ctx context.Context, js jetstream.JetStream, term regent.Term) error {
		m := &client.Msg{Subject: "orders.7", Data: []byte("billed")}
		_, err := nats.Fence(ctx, js, "ORDERS", term, m)
		return err
	}
	_ = write
}
