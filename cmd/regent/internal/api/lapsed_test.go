package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
)

// TestLapsedLeader asks a standby while nobody can write: the leader has gone, and nobody can take over.
func TestLapsedLeader(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	b := serve(t, store, "b", "")
	b.until("/standby", 200)

	never := memstore.Delay{Min: time.Hour, Max: time.Hour}
	store.SetFaults(memstore.Faults{ApplyLate: 1, Late: never})
	defer store.SetFaults(memstore.Faults{})

	status := b.becomes("/v1/status?local=1", func(body map[string]any) bool { return body["leader"] == "" })
	_, list := b.ask("GET", "/v1/elections", "") // the first list: it has seen no heartbeat before
	e := electionNamed(list, "seat")
	for where, shown := range map[string]any{"status": status["why"], "elections": e["why"]} {
		why, _ := shown.(map[string]any)
		text, _ := why["text"].(string)
		if why["previous"] != "a" || why["reason"] != "expired" || !strings.HasSuffix(text, "nobody has taken over") {
			t.Errorf("%s: %v", where, why)
		}
	}

	if e["state"] != "expired" || e["leader"] != "" || e["holder"] != "a" ||
		strings.Contains(fmt.Sprint(e), "leads:true") {
		t.Errorf("%v", e)
	}
}

// TestHandoffToADeadMember asks for a handoff to a member whose register shows a healthy candidate.
func TestHandoffToADeadMember(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	b := serve(t, store, "b", "")
	b.until("/standby", 200)
	link := store.Client("c", memstore.Faults{})
	c := serve(t, link, "c", "")
	c.until("/standby", 200)

	link.SetFaults(memstore.Faults{Outage: true})
	defer link.SetFaults(memstore.Faults{})
	a.becomes("/v1/members", func(body map[string]any) bool {
		return strings.Contains(fmt.Sprint(body["members"]), "status:unreachable")
	})

	for _, n := range []*testNode{a, b} {
		code, body := n.ask("POST", "/v1/elections/seat/handoff", `{"epoch":1,"to":"c"}`)
		text, _ := body["error"].(string)
		if code != 422 || body["code"] != "refused" || !strings.Contains(text, `member "c" is unreachable: `) {
			t.Errorf("%s: %d %v", n.Member.ID, code, body)
		}
	}
	if code, _ := a.ask("GET", "/leader", ""); code != 200 {
		t.Error("the term has ended")
	}
}
