package etcd_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/regentd/regent"
	"github.com/regentd/regent/store/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// It runs against ETCD_ADDRESS, say etcd://10.0.0.1,10.0.0.2,10.0.0.3/app.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())

	store, err := etcd.Open(ctx, os.Getenv("ETCD_ADDRESS"), etcd.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	m := &regent.Member{Store: store, ID: "a", Config: regent.Cluster()}
	err = m.Lead(ctx, "orders", func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		cancel() // only so that this example ends
		<-ctx.Done()
		return nil
	})

	fmt.Println(err)
}

// What a leader writes to its own keys is applied before another term begins, or never.
func ExampleFence() {
	write := func(ctx context.Context, client *clientv3.Client, term regent.Term) error {
		conditions, err := etcd.Fence(term)
		if err != nil {
			return err // the term has ended
		}

		answer, err := client.Txn(ctx).If(conditions...).Then(clientv3.OpPut("orders/7", "billed")).Commit()
		if err == nil && !answer.Succeeded {
			err = regent.ErrNotLeader
		}
		return err
	}
	_ = write
}
