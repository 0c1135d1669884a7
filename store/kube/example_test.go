package kube_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/regentd/regent"
	"github.com/regentd/regent/store/kube"
)

// It runs against KUBE_ADDRESS, say kube://billing.
func Example() {
	ctx := context.Background()

	store, err := kube.Open(ctx, os.Getenv("KUBE_ADDRESS"), kube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	// The pod gets a label while it leads.
	label := kube.PodLabel{Store: store, Pod: os.Getenv("POD_NAME"), Election: "orders"}
	work := regent.Duty{Election: "orders", Run: func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		<-ctx.Done()
		return nil
	}}

	member := &regent.Member{Store: store, ID: "a", Config: regent.Lock()}
	fmt.Println(member.Run(ctx, label.Duty(), work))
}
