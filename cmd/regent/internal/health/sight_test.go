package health

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestSight(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	view := func(rev string) regent.MemberView {
		return regent.MemberView{ID: "b", Incarnation: "1", Rev: rev, Lease: lease}
	}

	t.Run("no_heartbeat_that_goes_on_ever_runs_out_however_it_is_looked_at", func(t *testing.T) {
		for seed := range uint64(500) {
			g := rand.New(rand.NewPCG(seed, 1))
			var s sight
			var now, beat time.Duration
			n := 0
			for range 200 {
				now += time.Duration(g.Int64N(int64(20 * time.Second)))
				// The register changes at least once in every lease; what a listing shows is from between its sending and its answer.
				began, took := now, time.Duration(g.Int64N(int64(3*time.Second)))
				shown := began + time.Duration(g.Int64N(int64(took)+1))
				for beat <= shown {
					n++
					beat += time.Duration(1 + g.Int64N(int64(lease)-1))
				}
				now += took
				s.see(view(fmt.Sprint(n)), at(began), at(now))
				if s.ranOut() {
					t.Fatalf("seed %d: ran out at %v", seed, now)
				}
			}
		}
	})

	t.Run("a_heartbeat_that_has_stopped_runs_out_at_the_look_that_is_due", func(t *testing.T) {
		var s sight
		s.see(view("1"), at(0), at(10*time.Millisecond))
		looks := 0
		for !s.ranOut() {
			due := s.due(heartbeat)
			if due.IsZero() || !due.After(s.began) {
				t.Fatalf("due at %v after a look at %v", due.Sub(start), s.began.Sub(start))
			}
			s.see(view("1"), due, due.Add(10*time.Millisecond))
			looks++
		}
		if looks != 2 || s.quiet() != lease || !s.due(heartbeat).IsZero() {
			t.Errorf("ran out after %d looks and %v", looks, s.quiet())
		}
	})

	t.Run("a_member_is_in_doubt_until_its_heartbeat_is_seen", func(t *testing.T) {
		var s sight
		if !s.see(view("1"), at(0), at(0)) || s.proven || s.due(heartbeat) != at(2*heartbeat) {
			t.Errorf("first seen: %+v", s)
		}
		if s.see(view("2"), at(time.Second), at(time.Second)); !s.proven || !s.due(heartbeat).IsZero() {
			t.Errorf("seen again: %+v", s)
		}
		if s.see(view("2"), at(2*time.Second), at(2*time.Second)); !s.due(heartbeat).IsZero() {
			t.Error("a revision that stands still for one second is a reason to look again")
		}
		if s.see(view("2"), at(4*time.Second), at(4*time.Second)); !s.late(heartbeat) || s.due(heartbeat) != at(time.Second+lease) {
			t.Errorf("late: %+v", s)
		}
	})

	t.Run("a_heartbeat_counts_against_a_failed_probe_only_if_it_was_certainly_sent_after_it", func(t *testing.T) {
		var s sight
		s.see(view("1"), at(0), at(0))
		s.see(view("2"), at(time.Second), at(time.Second))
		s.probed(fmt.Errorf("no"), at(1100*time.Millisecond))
		s.see(view("3"), at(2*time.Second), at(2*time.Second)) // it may be from before the probe
		if s.cutBeat {
			t.Error("counted too early")
		}
		s.probed(fmt.Errorf("no"), at(2100*time.Millisecond))
		s.see(view("3"), at(3*time.Second), at(3*time.Second))
		if s.cutBeat || s.due(heartbeat) != at(2*time.Second+2*heartbeat) {
			t.Errorf("no news: %+v", s)
		}
		if s.see(view("4"), at(5*time.Second), at(5*time.Second)); !s.cutBeat || !s.due(heartbeat).IsZero() {
			t.Errorf("proved: %+v", s)
		}
		if s.probed(nil, at(6*time.Second)); s.cutBeat {
			t.Error("an answer did not end it")
		}
	})

	t.Run("a_longer_lease_or_a_slower_heartbeat_is_given_its_time", func(t *testing.T) {
		for _, c := range []struct{ lease, heartbeat, want time.Duration }{
			{6 * time.Second, 1500 * time.Millisecond, 3 * time.Second}, {6 * time.Second, 0, 3 * time.Second},
			{20 * time.Second, 1500 * time.Millisecond, 10 * time.Second}, {6 * time.Second, 2 * time.Second, 4 * time.Second},
			{0, 0, unknownLease / 2},
		} {
			s := sight{view: regent.MemberView{Lease: c.lease}}
			if got := s.patience(c.heartbeat); got != c.want {
				t.Errorf("lease %v, heartbeat %v: late after %v, want %v", c.lease, c.heartbeat, got, c.want)
			}
		}
	})
}
