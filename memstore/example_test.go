package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// Two members over one store. The requests of the second one are slow, and one answer in ten is lost.
func Example() {
	s := memstore.New()
	a := s.Client("a", memstore.Faults{})
	b := s.Client("b", memstore.Faults{Seed: 7, LoseAnswer: 0.1, Answer: memstore.Delay{Max: 10 * time.Millisecond}})

	for _, m := range []*regent.Member{{Store: a, ID: "a"}, {Store: b, ID: "b"}} {
		err := m.Lead(context.Background(), "reports", func(_ context.Context, t regent.Term) error {
			fmt.Println(m.ID, "leads, epoch", t.Epoch)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// a leads, epoch 1
	// b leads, epoch 2
}
