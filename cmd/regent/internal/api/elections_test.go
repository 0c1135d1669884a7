package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// hookedStore is a store that calls then, once, after a request over HTTP has read a register.
type hookedStore struct {
	*memstore.Store
	then atomic.Pointer[func()]
}

func (s *hookedStore) Get(ctx context.Context, name string) (driver.Record, error) {
	l, err := s.Store.Get(ctx, name)
	if ctx.Value(http.ServerContextKey) != nil {
		if then := s.then.Swap(nil); then != nil {
			(*then)()
		}
	}

	return l, err
}

func TestVerbAfterItsEpochHasPassed(t *testing.T) {
	for verb, to := range map[string]string{"step-down": "", "handoff": `,"to":"b"`, "pause": "", "resume": ""} {
		t.Run("a_verb_whose_epoch_passes_while_it_runs_is_409_with_the_current_one_"+verb, func(t *testing.T) {
			t.Parallel()
			store := memstore.New()
			a := serve(t, store, "a", "")
			a.until("/leader", 200)
			b := serve(t, store, "b", "")
			b.until("/standby", 200)

			for l, err := store.Get(t.Context(), driver.MemberRegister("b")); err != nil ||
				l.Vacant(); l, err = store.Get(t.Context(), driver.MemberRegister("b")) {
				<-time.After(time.Millisecond) // it is yet to join
			}

			slow := &hookedStore{Store: store}
			operator := serve(t, slow, "o", "")
			operator.until("/standby", 200)

			paused := verb == "resume"
			if paused {
				a.post("/v1/elections/seat/pause", `{"epoch":1}`)
			}

			other := func() { // another operator is quicker
				if paused {
					a.post("/v1/elections/seat/resume", `{"epoch":1}`)
					for v, _ := a.Member.View("seat"); v.Paused; v, _ = a.Member.View("seat") {
						<-time.After(time.Millisecond)
					}
				}

				a.post("/v1/elections/seat/handoff", `{"epoch":1,"to":"b"}`)
				b.until("/leader", 200)

				if paused {
					b.post("/v1/elections/seat/pause", `{"epoch":2}`)
				}
			}
			slow.then.Store(&other)

			if got, body := operator.ask("POST", "/v1/elections/seat/"+verb, `{"epoch":1`+to+`}`); got != 409 ||
				body["epoch"] != 2.0 {
				t.Errorf("%d %v", got, body)
			}

			if l, err := store.Get(t.Context(), "seat"); err != nil || l.Holder.ID != "b" || l.Epoch != 2 ||
				l.Next != "" || l.Paused != paused {
				t.Errorf("the record is %+v, %v", l, err)
			}
		})
	}
}

func TestUnknownElection(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)

	for _, name := range []string{"nosuch", url.PathEscape(driver.MemberRegister("a")),
		url.PathEscape(driver.MemberRegister("nosuch"))} {
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
