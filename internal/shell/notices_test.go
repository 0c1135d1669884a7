package shell

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// followed is a store that notes what is followed.
type followed struct {
	*memstore.Client
	mu    sync.Mutex
	names []string
	log   []string
}

func (f *followed) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	to.Observe(func(c driver.InterestChange) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range append(c.Names, c.Prefixes...) {
			if c.Gone {
				f.names = slices.DeleteFunc(f.names, func(other string) bool { return other == name })
			} else {
				f.names = append(f.names, name)
			}
			f.log = append(f.log, name)
		}
		slices.Sort(f.names)
	})
	return f.Client.Subscribe(ctx, to)
}

func (f *followed) now() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.names)
}

// following starts a process over a store that notes what it follows.
func following(t *testing.T, store *memstore.Store, cfg core.Config) (*process, *followed) {
	p := &process{t: t, id: cfg.ID, client: store.Client(cfg.ID, memstore.Faults{})}
	p.results = map[uint64]core.Result{}
	f := &followed{Client: p.client}
	p.run(f, cfg)
	p.shell.Do(core.Join{})
	return p, f
}

func TestFollows(t *testing.T) {
	run := func(name string, f func(t *testing.T, store *memstore.Store)) {
		t.Run(name, func(t *testing.T) { virtual.Test(t, func(t *testing.T) { f(t, memstore.New()) }) })
	}
	settle := func() {
		time.Sleep(5 * time.Second)
		synctest.Wait()
	}

	run("its_elections_and_the_members_that_hold_them", func(t *testing.T, store *memstore.Store) {
		a := start(t, store, clusterConfig("a"), "seat", "other")
		settle()
		b, f := following(t, store, clusterConfig("b"))
		b.shell.Do(core.Campaign{Election: "seat"})
		settle()
		if got, want := f.now(), "[regent/member/a seat]"; got != want {
			t.Errorf("it follows %s, want %s", got, want)
		}
		b.shell.Close()
		a.shell.Close()
	})

	run("all_members_where_a_rank_depends_on_them", func(t *testing.T, store *memstore.Store) {
		cfg := clusterConfig("b")
		cfg.Rank = "lexicographic"
		b, f := following(t, store, cfg)
		b.shell.Do(core.Campaign{Election: "seat"})
		settle()
		if got, want := f.now(), "[regent/member/ seat]"; got != want {
			t.Errorf("it follows %s, want %s", got, want)
		}
		b.shell.Close()
	})

	run("an_election_once_that_it_leads_again_and_again", func(t *testing.T, store *memstore.Store) {
		a, f := following(t, store, lockConfig("a"))
		for range 3 * maxUnwanted {
			a.shell.Do(core.Campaign{Election: "seat"})
			await(t, "it leads", time.Second, func() bool { return a.leads("seat") })
			a.shell.Do(core.Withdraw{Election: "seat"})
			settle()
		}
		if got, want := fmt.Sprint(f.log), "[seat]"; got != want {
			t.Errorf("it has followed %s, want %s", got, want)
		}
		a.shell.Close()
	})

	run("an_election_that_it_claims_without_a_read_only_if_the_term_lasts", func(t *testing.T, store *memstore.Store) {
		a, f := following(t, store, lockConfig("a"))
		for range 3 * maxUnwanted {
			a.shell.Do(core.Campaign{Election: "seat"})
			await(t, "it leads", time.Second, func() bool { return a.leads("seat") })
			a.shell.Do(core.Withdraw{Election: "seat"})
			synctest.Wait()
		}
		if got, want := fmt.Sprint(f.now(), " ", f.log), "[] [seat seat]"; got != want {
			t.Errorf("it follows and has followed %s, want %s", got, want)
		}

		a.shell.Do(core.Campaign{Election: "seat"})
		await(t, "it leads", time.Second, func() bool { return a.leads("seat") })
		await(t, "it follows the election", 2*followDelay, func() bool { return f.now() == "[seat]" })
		a.shell.Close()
	})

	run("an_election_of_others_no_longer_than_a_few_changes", func(t *testing.T, store *memstore.Store) {
		a, f := following(t, store, lockConfig("a"))
		a.shell.Do(core.Campaign{Election: "seat"})
		await(t, "it leads", time.Second, func() bool { return a.leads("seat") })
		a.shell.Do(core.Withdraw{Election: "seat"})
		settle()
		b := start(t, store, lockConfig("b"))
		for range maxUnwanted {
			b.shell.Do(core.Campaign{Election: "seat"})
			await(t, "the other one leads", time.Minute, func() bool { return b.leads("seat") })
			b.shell.Do(core.Withdraw{Election: "seat"})
			settle()
		}
		if got := f.now(); got != "[]" {
			t.Errorf("it still follows %s", got)
		}
		b.shell.Close()
		a.shell.Close()
	})

	run("not_many_elections_that_it_has_left", func(t *testing.T, store *memstore.Store) {
		a, f := following(t, store, lockConfig("a"))
		for i := range 2 * maxUnused {
			a.shell.Do(core.Campaign{Election: fmt.Sprint("seat ", i)})
		}
		settle()
		for i := range 2 * maxUnused {
			a.shell.Do(core.Withdraw{Election: fmt.Sprint("seat ", i)})
		}
		settle()
		f.mu.Lock()
		n := len(f.names)
		f.mu.Unlock()
		if n > maxUnused {
			t.Errorf("it follows %d elections that it has left", n)
		}
		a.shell.Close()
	})
}
