package work_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// A worker that greets, and a leader that has it greet somebody.
func Example() {
	greet := func(ctx context.Context, t work.Task) (json.RawMessage, error) {
		var name string
		if err := json.Unmarshal(t.Payload, &name); err != nil {
			return nil, err
		}
		return json.Marshal(fmt.Sprintf("hello %s, in epoch %d", name, t.Epoch))
	}

	w := &work.Worker{Election: "greetings", Token: "secret"}
	w.Handle("greet", greet)
	mux := http.NewServeMux()
	mux.Handle("POST /v1/tasks", w)
	mux.Handle("POST /v1/tasks/results", w)
	server := httptest.NewServer(mux)
	defer server.Close()

	m := &regent.Member{Store: memstore.New(), ID: "a"}
	err := m.Lead(context.Background(), "greetings", func(ctx context.Context, t regent.Term) error {
		pool := work.NewPool(ctx, t, work.Options{Leader: m.ID, Token: "secret"})
		defer pool.Close()

		pool.Add("w1", server.URL)
		r, err := pool.Do(ctx, work.Task{ID: "greet/1", Kind: "greet", Payload: json.RawMessage(`"Ada"`)})
		fmt.Println(r.Outcome, string(r.Data))
		return err
	})

	fmt.Println(err, w.Close())
	// Output:
	// done "hello Ada, in epoch 1"
	// <nil> <nil>
}
