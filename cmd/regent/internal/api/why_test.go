package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestWhy(t *testing.T) {
	store := memstore.New()
	link := store.Client("a", memstore.Faults{})
	a := serve(t, link, "a", "")
	a.until("/leader", 200)

	first := a.becomes("/v1/status?local=1",
		func(b map[string]any) bool { return b["why"] != nil })["why"].(map[string]any)
	if first["reason"] != "first" || first["text"] != "nobody has led before" || first["previous"] != "" {
		t.Errorf("the first term: %v", first)
	}
	if _, there := first["vacantMs"]; there {
		t.Errorf("the first term: %v", first)
	}

	// Its companion process proves it dead.
	b := serve(t, store, "b", "")
	b.until("/standby", 200)

	link.SetFaults(memstore.Faults{Outage: true}) // or it joins again, and may be quicker than b
	defer link.SetFaults(memstore.Faults{})
	l, err := store.Get(t.Context(), driver.MemberRegister("a"))
	if err == nil {
		err = regent.Reap(t.Context(), store, l.Name, l.Holder)
	}
	if err != nil {
		t.Fatal(err)
	}

	status := b.becomes("/v1/status?local=1",
		func(b map[string]any) bool { return b["epoch"] == 2.0 && b["leader"] != "" })
	was := status["why"].(map[string]any)
	text, _ := was["text"].(string)
	if was["previous"] != "a" || was["reason"] != "died" ||
		!strings.HasPrefix(text, "the process of a died; nobody led for ") {
		t.Errorf("%v", was)
	}

	if ms, ok := was["vacantMs"].(float64); !ok || ms < 0 || ms > float64(time.Minute.Milliseconds()) {
		t.Errorf("%v", was)
	}
}

// TestStatusIsOneView asks for the status while the election changes hands: who leads, and why, must be of one moment.
func TestStatusIsOneView(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	nodes := []*testNode{serve(t, store, "a", ""), serve(t, store, "b", "")}
	for _, n := range nodes {
		n.until("/readyz", 200)
		n.becomes("/v1/members", func(b map[string]any) bool { return len(b["members"].([]any)) == 2 })
	}

	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, n := range nodes {
		for range 2 {
			asking.Go(func() {
				for done := false; !done; {
					h, v, _ := n.Observe()
					if h.Role == node.Leader && h.Epoch != v.Epoch {
						t.Errorf("it leads epoch %d, and the view shows epoch %d", h.Epoch, v.Epoch)
					}

					select {
					case <-stop:
						done = true
					default:
					}
				}
			})
		}
	}

	for range 10 {
		status := nodes[0].becomes("/v1/status?local=1", func(b map[string]any) bool { return b["leader"] != "" })
		to := "a"
		if status["leader"] == "a" {
			to = "b"
		}
		nodes[0].ask("POST", "/v1/elections/seat/handoff", fmt.Sprintf(`{"epoch":%v,"to":%q}`, status["epoch"], to))
		eventually(t, to+" leads", func() bool {
			l, err := store.Get(t.Context(), "seat")
			return err == nil && l.Holder.ID == to
		})
	}
	close(stop)
	asking.Wait()
}
