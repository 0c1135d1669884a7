package work_test

import (
	"testing"

	"github.com/regentd/regent/work"
)

func TestRefusals(t *testing.T) {
	leaks(t)

	t.Run("both_epochs_of_refused_tasks_and_queries_are_kept", func(t *testing.T) {
		w := worker(newRan())
		url := serve(t, w)
		post(t, url, batch(6, 0, task("a"))).wants(t, 200, "")
		if got := w.Refusals(); len(got) != 0 {
			t.Errorf("nothing was refused: %+v", got)
		}

		post(t, url, batch(5, 0, task("b"), task("c"))).wants(t, 409, "stale")
		if r := post(t, url+"/results", ask(4)); r.code != 409 {
			t.Fatalf("answered %+v", r)
		}

		got := w.Refusals()
		if len(got) != 2 || !refused(got[0], 4, 6, 0) || !refused(got[1], 5, 6, 2) {
			t.Errorf("%+v", got)
		}
	})

	t.Run("only_the_last_ten_are_kept", func(t *testing.T) {
		w := worker(newRan())
		url := serve(t, w)
		post(t, url, batch(30, 0, task("a"))).wants(t, 200, "")
		for epoch := range uint64(15) {
			post(t, url, batch(epoch+1, 0, task("b"))).wants(t, 409, "stale")
		}

		got := w.Refusals()
		if len(got) != 10 || got[0].Epoch != 15 || got[9].Epoch != 6 {
			t.Errorf("%+v", got)
		}
	})
}

// refused reports whether a refusal has these figures, and names when it was and who sent the work.
func refused(r work.Refusal, epoch, newest uint64, tasks int) bool {
	return r.Epoch == epoch && r.Newest == newest && r.Tasks == tasks && r.Leader != "" && !r.At.IsZero()
}
