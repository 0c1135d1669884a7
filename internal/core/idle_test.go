package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// Who watches a leader closely, and who seldom.

// watchedBy is what a leader publishes: who watches it closely.
const watchedBy = `{"ids":["x","y"],"enough":true,"elections":["` + election1 + `"],"members":9}`

// follow returns a core that follows a leader which publishes a list, after the leader has sent heartbeats for a while.
func follow(t *testing.T, list string, change ...func(*Config)) *rig {
	t.Helper()

	cfg := clusterConfig()
	cfg.Watchers = 2
	for _, f := range change {
		f(&cfg)
	}

	r := newRig(t, cfg)
	r.put(held(other, 1, remote))
	r.start()
	r.heartbeats(20*time.Second, list)
	return r
}

// heartbeats lets time pass while the other member sends heartbeats.
func (r *rig) heartbeats(d time.Duration, list string) {
	r.t.Helper()

	const every = 1500 * time.Millisecond
	for ; d > 0; d -= every {
		rec := beating(other, uint64(r.rev)+1000)
		rec.Data = []byte(`{"eligible":true,"watchers":` + list + `}`)
		r.put(rec)
		r.run(every)
	}
}

// sends returns how many requests about a register were sent since the last forget.
func (r *rig) sends(name string, verb Verb) int {
	n := 0
	for _, s := range every[Send](r) {
		if s.Record.Name == name && s.Verb == verb {
			n++
		}
	}

	return n
}

func TestIdle(t *testing.T) {
	t.Run("a_leader_that_is_watched_seldom_has_not_expired", func(t *testing.T) {
		r := follow(t, watchedBy)
		equal(t, "idles", r.c.WatchesSeldom(), true)
		v, _ := r.c.View(election1, r.now.Add(time.Minute))
		equal(t, "expired", v.Expired, false)
		equal(t, "age is known", v.Watched, false)

		r.run(time.Minute) // the leader is dead
		v, _ = r.c.View(election1, r.now)
		equal(t, "expired", v.Expired || v.Record.Holder.ID == "a", true)
	})

	t.Run("a_standby_that_is_not_named_reads_its_leader_seldom", func(t *testing.T) {
		r := follow(t, watchedBy)
		equal(t, "idles", r.c.WatchesSeldom(), true)
		r.forget()
		r.heartbeats(3*time.Minute, watchedBy)
		if n := r.sends(remote, Get) + r.sends(election1, Get); n < 20 || n > 40 {
			t.Errorf("%d reads in 3 minutes, want 3 in 18 s", n)
		}
	})

	for name, tt := range map[string]struct {
		list   string
		change func(*Config)
	}{
		"a_standby_that_is_named": {strings.Replace(watchedBy, `"x"`, `"a"`, 1), nil},
		"one_of_too_few":          {strings.Replace(watchedBy, `true`, `false`, 1), nil},
		"one_of_another_election": {strings.Replace(watchedBy, `"`+election1+`"`, `"other"`, 1), nil},
		"one_without_a_list":      {`null`, nil},
		"one_that_gets_no_list":   {`{"ids":7}`, nil},
		"one_that_never_idles":    {watchedBy, func(c *Config) { c.Watchers = 0 }},
	} {
		t.Run(name+"_watches_closely", func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*Config) {}
			}

			r := follow(t, tt.list, tt.change)
			r.forget()
			r.heartbeats(time.Minute, tt.list)
			equal(t, "idles", r.c.WatchesSeldom(), false)
			if n := r.sends(remote, Get); n < 25 {
				t.Errorf("%d reads of the leader's heartbeat in a minute", n)
			}
		})
	}

	t.Run("one_that_cannot_lead_idles_although_there_are_too_few", func(t *testing.T) {
		r := follow(t, strings.Replace(watchedBy, `true`, `false`, 1), func(c *Config) { c.Eligible = false })
		equal(t, "idles", r.c.WatchesSeldom(), true)
	})

	t.Run("rule_2_it_counts_the_lease_of_a_silent_leader_anew", func(t *testing.T) {
		r := follow(t, watchedBy)
		r.forget() // and from now on the heartbeat does not change any more
		var first Time
		for range 600 {
			r.run(100 * time.Millisecond)
			if first == 0 && r.sends(remote, Get) > 0 {
				first = r.now
			}
			if r.sends(remote, Swap) > 0 {
				break
			}
		}

		if d := time.Duration(r.now - first); first == 0 || d < 6*time.Second || d > 9*time.Second {
			t.Errorf("revoked %v after the first read, want the lease and the takeover delay", d)
		}
	})

	t.Run("it_reads_its_election_when_it_hears_of_another_term", func(t *testing.T) {
		r := follow(t, watchedBy)
		r.forget()
		r.step(Observed{election1, 2})
		equal(t, "reads", r.sends(election1, Get), 1)
	})

	t.Run("it_watches_closely_when_its_register_is_touched", func(t *testing.T) {
		r := follow(t, watchedBy)
		touched := r.store[own]
		touched.Edits++
		r.put(touched)
		r.forget()
		r.heartbeats(5*time.Second, watchedBy)
		equal(t, "idles", r.c.WatchesSeldom(), false)
		if n := r.sends(election1, Get); n < 4 {
			t.Errorf("%d reads of the election in 5 s", n)
		}

		r.heartbeats(20*time.Second, watchedBy)
		equal(t, "idles again", r.c.WatchesSeldom(), true)
	})

	t.Run("it_polls_its_election_once_it_is_named", func(t *testing.T) {
		r := follow(t, watchedBy)
		named := strings.Replace(watchedBy, `"x"`, `"a"`, 1)
		r.heartbeats(30*time.Second, named)
		r.forget()
		r.heartbeats(time.Minute, named)
		if n := r.sends(election1, Get); n < 11 {
			t.Errorf("%d reads of the election in a minute", n)
		}
	})

	t.Run("it_polls_its_election_while_the_heartbeat_of_its_leader_cannot_be_read", func(t *testing.T) {
		r := follow(t, watchedBy)
		r.unreadable = remote
		r.run(30 * time.Second)
		r.put(driver.Record{Name: election1, Epoch: 1, Nonce: 5, Duration: 6 * time.Second})
		r.forget()
		r.run(30 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 2)
	})

	t.Run("a_read_that_fails_after_a_notification_is_made_again", func(t *testing.T) {
		r := follow(t, watchedBy)
		r.forget()
		r.step(Notice{driver.Record{Name: remote}})
		r.answer(r.take(remote), Unknown, driver.Record{})
		r.run(3 * time.Second)
		if n := r.sends(remote, Get); n < 2 {
			t.Errorf("%d reads of the heartbeat", n)
		}
	})

	t.Run("it_does_not_keep_the_floor_fresh", func(t *testing.T) {
		r := follow(t, watchedBy, func(c *Config) { c.Rest = time.Minute })
		r.forget()
		r.heartbeats(3*time.Minute, watchedBy)
		equal(t, "reads of the floor", r.sends(driver.FloorRegister, Get), 0)
	})
}

// peersOf writes the registers of candidates, as new heartbeats.
func (r *rig) peersOf(ids ...string) {
	for _, id := range ids {
		rec := candidate(id, "")
		rec.Nonce = uint64(r.rev) + 1000
		r.put(rec)
	}
}

func TestWatchers(t *testing.T) {
	lead := func(t *testing.T) *rig {
		cfg := clusterConfig()
		cfg.Watchers = 2
		cfg.Info = []byte(`{"eligible":true}`)
		r := newRig(t, cfg)
		r.lead()
		for range 8 {
			r.run(1500 * time.Millisecond)
			r.peersOf("x", "b", "y", "c")
		}

		return r
	}

	t.Run("a_leader_names_the_best_and_calls_them", func(t *testing.T) {
		r := lead(t)
		want := `{"eligible":true,"watchers":{"ids":["b","c"],"enough":true,"elections":["e"],"members":5}}`
		equal(t, "published", string(r.store[own].Data), want)
		for _, id := range []string{"b", "c"} {
			if n := r.sends(driver.MemberRegister(id), Swap); n == 0 {
				t.Errorf("%s was not called", id)
			}
		}

		if n := r.sends(driver.MemberRegister("x"), Swap); n != 0 {
			t.Errorf("x was called %d times", n)
		}
	})

	t.Run("the_place_of_one_that_is_silent_is_filled", func(t *testing.T) {
		r := lead(t)
		r.forget()
		for range 12 {
			r.run(1500 * time.Millisecond)
			r.peersOf("x", "b", "y")
		}

		if got := string(r.store[own].Data); !strings.Contains(got, `["b","x"]`) {
			t.Errorf("published %s", got)
		}

		equal(t, "calls of x", min(1, r.sends(driver.MemberRegister("x"), Swap)), 1)
		equal(t, "calls of b", r.sends(driver.MemberRegister("b"), Swap), 0)
	})

	t.Run("a_register_of_one_that_never_sends_heartbeats_gets_no_place", func(t *testing.T) {
		r := lead(t)
		r.put(candidate("aa", ""))
		for range 3 {
			r.run(1500 * time.Millisecond)
			r.peersOf("x", "b", "y", "c")
		}

		if got := string(r.store[own].Data); strings.Contains(got, `"aa"`) {
			t.Errorf("published %s", got)
		}
	})

	t.Run("a_leader_of_very_many_elections_names_nobody", func(t *testing.T) {
		r := lead(t)
		for i := range manyFree {
			r.step(Campaign{fmt.Sprint("more", i)})
		}

		for range 8 {
			r.run(1500 * time.Millisecond)
			r.peersOf("x", "b", "y", "c")
		}

		equal(t, "terms", len(every[Begin](r)), manyFree+1)
		equal(t, "published", string(r.store[own].Data), `{"eligible":true}`)
	})

	t.Run("a_leader_among_few_names_nobody", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.Watchers = 3
		r := newRig(t, cfg)
		r.lead()
		for range 40 {
			r.run(1500 * time.Millisecond)
			r.peersOf("x", "b", "y")
		}

		equal(t, "published", string(r.store[own].Data), "")
		skims := slices.DeleteFunc(every[Send](r), func(s Send) bool { return s.Verb != Skim })
		if len(skims) > 6 {
			t.Errorf("%d lists in a minute", len(skims))
		}
	})
}
