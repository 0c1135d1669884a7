package regent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// The shortest program. Every process runs it; at most one of them reports at a time.
func Example() {
	ctx, store := context.Background(), memstore.New()
	report := func(_ context.Context, t regent.Term) error {
		fmt.Println("reporting, epoch", t.Epoch)
		return nil
	}

	m := &regent.Member{Store: store}
	err := m.Lead(ctx, "reports", func(ctx context.Context, t regent.Term) error {
		return report(ctx, t) // on at most one process; ctx ends with the term
	})

	fmt.Println(err)
	// Output:
	// reporting, epoch 1
	// <nil>
}

// A loop that runs on one process of many.
func ExampleMember_Lead() {
	ctx, cancel := context.WithCancel(context.Background())
	m := &regent.Member{Store: memstore.New(), ID: "node-a"}
	err := m.Lead(ctx, "reports", func(ctx context.Context, t regent.Term) error {
		for tick := 1; ; tick++ {
			if ctx.Err() != nil {
				fmt.Println("stopped:", context.Cause(ctx))
				return nil // the seat is released after this
			}

			fmt.Printf("report %d, epoch %d\n", tick, t.Epoch)
			if tick == 2 {
				cancel() // the service shuts down
				<-ctx.Done()
			}

			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})

	fmt.Println(err)
	// Output:
	// report 1, epoch 1
	// report 2, epoch 1
	// stopped: shutdown
	// context canceled
}

// A receiver that refuses what a former leader sends, however late it arrives.
func ExampleFence() {
	var fence regent.Fence
	write := func(token regent.Token, text string) {
		if err := fence.Admit(token); err != nil {
			fmt.Printf("refused %q: %v\n", text, err)
			return
		}

		fmt.Printf("wrote %q\n", text)
	}

	// A leader sends its Term.Token with its work.
	first := regent.Token{Epoch: 1, Term: "a1"}
	second := regent.Token{Epoch: 2, Term: "b1"}
	write(first, "by the first leader")
	write(second, "by the second")
	write(first, "by the first, which was only frozen")
	// Output:
	// wrote "by the first leader"
	// wrote "by the second"
	// refused "by the first, which was only frozen": epoch 1 is stale: epoch 2 has been seen
}

// An HTTP service that takes writes on the leader alone.
func ExampleMember_Leads() {
	m := &regent.Member{Store: memstore.New(), ID: "node-a"}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, ok := m.Leads("orders")
		if r.Method != http.MethodGet && !ok {
			http.Error(w, "ask the leader", http.StatusServiceUnavailable)
			return
		}

		fmt.Fprintf(w, "%s in epoch %d", r.Method, t.Epoch)
	})

	ask := func(method string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/orders", nil))
		fmt.Println(w.Code, w.Body)
	}
	ask("POST")
	_ = m.Lead(context.Background(), "orders", func(context.Context, regent.Term) error {
		ask("POST")
		return nil
	})

	ask("GET")
	// Output:
	// 503 ask the leader
	//
	// 200 POST in epoch 1
	// 200 GET in epoch 0
}

// A process that only wants to know who leads.
func ExampleMember_Watch() {
	store := memstore.New()
	leader := &regent.Member{Store: store, ID: "node-a", Addr: "10.0.0.1:8080"}
	observer := &regent.Member{Store: store, ID: "router"}
	_ = leader.Lead(context.Background(), "reports", func(context.Context, regent.Term) error {
		for v, err := range observer.Watch(context.Background(), "reports") {
			fmt.Println(v.Leader, v.Addr, v.Epoch, err)
			break
		}

		return nil
	})

	// Output:
	// node-a 10.0.0.1:8080 1 <nil>
}

// Many elections on one member: one heartbeat keeps all of them.
func ExampleMember_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	m := &regent.Member{Store: memstore.New(), ID: "node-a"}
	var up sync.WaitGroup
	var duties []regent.Duty
	for shard := range 100 {
		up.Add(1)
		duties = append(duties, regent.Duty{Election: fmt.Sprintf("shard-%02d", shard),
			Run: func(ctx context.Context, t regent.Term) error {
				up.Done()
				<-ctx.Done()
				return nil
			}})
	}

	go func() { up.Wait(); cancel() }()
	fmt.Println(m.Run(ctx, duties...), m.Stats().Transitions)
	// Output:
	// context canceled 100
}
