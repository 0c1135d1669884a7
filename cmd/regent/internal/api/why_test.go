package api_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestUnknownElection(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)

	for _, name := range []string{"nosuch", url.PathEscape(driver.MemberRegister("a")), url.PathEscape(driver.MemberRegister("nosuch"))} {
		for _, verb := range []string{"pause", "resume", "step-down", "handoff"} {
			for _, epoch := range []string{"0", "1"} {
				code, body := a.ask("POST", "/v1/elections/"+name+"/"+verb, `{"epoch": `+epoch+`, "to": "b"}`)
				if code != 404 || !strings.Contains(body["error"].(string), "was never held") {
					t.Errorf("%s %s at epoch %s: %d %v", verb, name, epoch, code, body)
				}
			}
		}
		if code, body := a.ask("GET", "/v1/elections/"+name, ""); code != 404 {
			t.Errorf("%s: %d %v", name, code, body)
		}
	}
	for _, name := range []string{"nosuch", driver.MemberRegister("nosuch")} {
		if l, err := store.Get(t.Context(), name); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("there is a register now: %+v, %v", l, err)
		}
	}
	a.post("/v1/elections/seat/pause", `{"epoch": 1}`)
	a.post("/v1/elections/seat/resume", `{"epoch": 1}`)
}

func TestWhy(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	first := a.becomes("/v1/status?local=1", func(b map[string]any) bool { return b["why"] != nil })["why"].(map[string]any)
	if first["reason"] != "first" || first["text"] != "nobody has led before" || first["previous"] != "" {
		t.Errorf("the first term: %v", first)
	}
	if _, there := first["vacantMs"]; there {
		t.Errorf("the first term: %v", first)
	}

	// Its companion process proves it dead.
	b := serve(t, store, "b", "")
	b.until("/standby", 200)
	l, err := store.Get(t.Context(), driver.MemberRegister("a"))
	if err == nil {
		err = regent.Reap(t.Context(), store, l.Name, l.Holder)
	}
	if err != nil {
		t.Fatal(err)
	}
	status := b.becomes("/v1/status?local=1", func(b map[string]any) bool { return b["epoch"] == 2.0 && b["leader"] != "" })
	was := status["why"].(map[string]any)
	text, _ := was["text"].(string)
	if was["previous"] != "a" || was["reason"] != "died" || !strings.HasPrefix(text, "the process of a died; nobody led for ") {
		t.Errorf("%v", was)
	}
	if ms, ok := was["vacantMs"].(float64); !ok || ms < 0 || ms > float64(time.Minute.Milliseconds()) {
		t.Errorf("%v", was)
	}
}

func TestOperatorsMetrics(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	a.becomes("/metrics", func(b map[string]any) bool {
		text, _ := b["text"].(string)
		for _, line := range []string{`regent_store_behind{election="seat"} 0`,
			`regent_store_regressions_total{election="seat"} 0`, "regent_poll_clock_jumps_total 0", "regent_polls_overdue 0"} {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}
		return true
	})
}
