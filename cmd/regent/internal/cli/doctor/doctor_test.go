package doctor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// twoSteps is a store whose conditional write is a check and a write, with time between them.
type twoSteps struct {
	driver.Store
	mu    sync.Mutex
	ready sync.WaitGroup
}

func (s *twoSteps) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	now, err := s.Get(ctx, l.Name)
	if err == nil && now.Rev != l.Rev {
		return l, driver.ErrConflict
	}

	s.ready.Done()
	s.ready.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	now, err = s.Get(ctx, l.Name)
	if err == nil {
		l.Rev = now.Rev
	}
	return s.Store.Swap(ctx, l)
}

func TestRace(t *testing.T) {
	t.Run("a_store_that_swaps_passes", func(t *testing.T) {
		answered, err := Race(t.Context(), memstore.New())
		if err != nil || answered != rounds*writers {
			t.Errorf("%d, %v", answered, err)
		}
	})

	t.Run("a_store_that_checks_and_writes_in_two_steps_is_found", func(t *testing.T) {
		s := &twoSteps{Store: memstore.New()}
		s.ready.Add(writers)
		if _, err := Race(t.Context(), s); !errors.Is(err, ErrNotAtomic) {
			t.Errorf("%v", err)
		}
	})
}

func TestCheckStore(t *testing.T) {
	t.Run("a_store_that_is_away_is_wrong", func(t *testing.T) {
		store := memstore.New()
		store.SetFaults(memstore.Faults{Outage: true})
		r := &Report{Healthy: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.CheckStore(ctx, store, regent.Cluster()); err == nil || r.Healthy || r.Takeover != nil {
			t.Errorf("%+v", r)
		}
	})

	t.Run("nothing_is_left_in_the_store", func(t *testing.T) {
		store := memstore.New()
		r := &Report{Healthy: true}
		if err := r.CheckStore(t.Context(), store, regent.Cluster()); err != nil || !r.Healthy {
			t.Errorf("%+v", r)
		}
		r.CheckPermissions(t.Context(), store)
		if _, err := store.Get(t.Context(), scratch); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

func TestCompute(t *testing.T) {
	for name, c := range map[string]struct {
		config   regent.Config
		push     time.Duration
		released float64
		silent   float64
	}{
		"cluster":         {regent.Cluster(), 2 * time.Millisecond, 32, 9040},
		"lock":            {regent.Lock(), 0, 30, 40040},
		"cluster_no_push": {regent.Cluster(), NoPush, 5030, 9040},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compute(c.config, 10*time.Millisecond, 10*time.Millisecond, c.push)
			if got.ReleasedMs != c.released || got.SilentMs != c.silent {
				t.Errorf("%+v", got)
			}
		})
	}

	t.Run("a_store_too_slow_for_the_lease_is_wrong", func(t *testing.T) {
		r := &Report{Healthy: true}
		l := Latency{WriteP99: 5 * time.Second}
		r.checkMargin(Compute(regent.Cluster(), 0, l.WriteP99, 0), l, regent.Cluster())
		if r.Healthy {
			t.Errorf("%+v", r)
		}
	})
}

func TestAddWarnings(t *testing.T) {
	r := &Report{Healthy: true}
	r.AddWarnings([]string{"maxmemory-policy is allkeys-lru: it must be noeviction", "something else"}, "redis")
	got := map[string]Verdict{}
	for _, c := range r.Checks {
		got[c.Name] = c.Verdict
	}
	if got["eviction"] != Wrong || got["persistence"] != OK || got["store"] != Warning || r.Healthy {
		t.Errorf("%v", got)
	}
}

func TestTopics(t *testing.T) {
	for name, c := range map[string]struct {
		warning string
		want    map[string]Verdict
	}{
		"nothing_on_disk_is_wrong": {`the server keeps nothing on disk (appendonly no, save "")`,
			map[string]Verdict{"persistence": Wrong, "eviction": OK}},
		"snapshots_are_a_warning": {"the server keeps snapshots only (appendonly no, save x)",
			map[string]Verdict{"persistence": Warning, "eviction": OK}},
		"keys_without_an_expiry_are_not_evicted": {"maxmemory-policy is volatile-lru: it must be noeviction",
			map[string]Verdict{"persistence": OK, "eviction": Warning}},
		"what_could_not_be_checked_is_not_ok": {
			"whether the server evicts keys, keeps them on disk and has replicas could not be checked: x",
			map[string]Verdict{"persistence": "", "eviction": Warning, "replication": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{Healthy: true}
			r.AddWarnings([]string{c.warning}, "redis")
			got := map[string]Verdict{}
			for _, check := range r.Checks {
				got[check.Name] = check.Verdict
			}
			for topic, want := range c.want {
				if got[topic] != want {
					t.Errorf("%s is %q, want %q", topic, got[topic], want)
				}
			}
		})
	}
}

func TestPausedElectionIsAWarningUnlessNobodyLeads(t *testing.T) {
	store := memstore.New()
	leader := driver.Identity{ID: "a", Incarnation: "i"}
	for _, l := range []driver.Record{
		{Name: "led", Paused: true, Holder: leader, Epoch: 1}, {Name: "nobody", Paused: true}, {Name: "y"},
	} {
		l.Duration = time.Minute
		l.Nonce = 1
		if _, err := store.Swap(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}

	r := &Report{Healthy: true}
	r.checkPaused(t.Context(), store)
	if len(r.Checks) != 2 || r.Checks[0].Verdict != Wrong || r.Checks[1].Verdict != Warning ||
		r.Checks[0].Text != "election nobody is paused, and nobody leads it" ||
		r.Checks[1].Text != "election led is paused: nobody takes over" {
		t.Errorf("%+v", r.Checks)
	}
}

func TestRemedy(t *testing.T) {
	for problem, want := range map[driver.Problem]string{
		driver.ProblemLogin:      "a password",
		driver.ProblemPermission: "grant this user",
		driver.ProblemFile:       "let this user write the file",
		driver.ProblemForeign:    "name another database",
		driver.ProblemFull:       "make room",
		driver.ProblemReadOnly:   "name the primary",
	} {
		err := driver.Refused(driver.WithProblem(problem, errors.New("no")))
		if got := Remedy(err, "correct the address"); !strings.Contains(got, want) {
			t.Errorf("%s → %s, want %q", problem, got, want)
		}
	}

	if got := Remedy(errors.New("password"), "correct the address"); got != "correct the address" {
		t.Errorf("an error without a problem: %q", got)
	}
}
