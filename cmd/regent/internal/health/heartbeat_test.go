package health

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestHeartbeat(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	view := func(rev string) regent.MemberView {
		return regent.MemberView{ID: "b", Incarnation: "1", Rev: rev, Lease: lease}
	}

	t.Run("a_heartbeat_that_continues_never_expires_whenever_it_is_listed", func(t *testing.T) {
		for seed := range uint64(500) {
			g := rand.New(rand.NewPCG(seed, 1))
			var h heartbeat
			var now, beat time.Duration
			n := 0
			for range 200 {
				now += time.Duration(g.Int64N(int64(20 * time.Second)))
				// The register changes at least once in every lease. A listing shows it at some time between its
				// sending and its answer.
				began := now
				took := time.Duration(g.Int64N(int64(3 * time.Second)))
				shown := began + time.Duration(g.Int64N(int64(took)+1))
				for beat <= shown {
					n++
					beat += time.Duration(1 + g.Int64N(int64(lease)-1))
				}
				now += took
				h.update(view(fmt.Sprint(n)), at(began), at(now))
				if h.expired() {
					t.Fatalf("seed %d: expired at %v", seed, now)
				}
			}
		}
	})

	t.Run("a_heartbeat_that_has_stopped_expires_at_the_next_check", func(t *testing.T) {
		var h heartbeat
		h.update(view("1"), at(0), at(10*time.Millisecond))
		checks := 0
		for !h.expired() {
			due := h.nextCheck(interval)
			if due.IsZero() || !due.After(h.listed) {
				t.Fatalf("due at %v after a check at %v", due.Sub(start), h.listed.Sub(start))
			}
			h.update(view("1"), due, due.Add(10*time.Millisecond))
			checks++
		}
		if checks != 2 || h.silentFor() != lease || !h.nextCheck(interval).IsZero() {
			t.Errorf("expired after %d checks and %v", checks, h.silentFor())
		}
	})

	t.Run("a_member_is_uncertain_until_its_heartbeat_is_seen", func(t *testing.T) {
		var h heartbeat
		if !h.update(view("1"), at(0), at(0)) || h.confirmed || h.nextCheck(interval) != at(2*interval) {
			t.Errorf("first seen: %+v", h)
		}
		if h.update(view("2"), at(time.Second), at(time.Second)); !h.confirmed || !h.nextCheck(interval).IsZero() {
			t.Errorf("seen again: %+v", h)
		}
		if h.update(view("2"), at(2*time.Second), at(2*time.Second)); !h.nextCheck(interval).IsZero() {
			t.Error("a revision that does not change for one second is checked again")
		}
		h.update(view("2"), at(4*time.Second), at(4*time.Second))
		if !h.late(interval) || h.nextCheck(interval) != at(time.Second+lease) {
			t.Errorf("late: %+v", h)
		}
	})

	t.Run("a_heartbeat_counts_as_sent_after_a_failed_probe_only_if_that_is_certain", func(t *testing.T) {
		var h heartbeat
		h.update(view("1"), at(0), at(0))
		h.update(view("2"), at(time.Second), at(time.Second))
		h.probed(fmt.Errorf("no"), at(1100*time.Millisecond))
		h.update(view("3"), at(2*time.Second), at(2*time.Second)) // it may be from before the probe
		if h.afterFailure {
			t.Error("counted too early")
		}

		h.probed(fmt.Errorf("no"), at(2100*time.Millisecond))
		h.update(view("3"), at(3*time.Second), at(3*time.Second))
		if h.afterFailure || h.nextCheck(interval) != at(2*time.Second+2*interval) {
			t.Errorf("no news: %+v", h)
		}
		h.update(view("4"), at(5*time.Second), at(5*time.Second))
		if !h.afterFailure || !h.nextCheck(interval).IsZero() {
			t.Errorf("proved: %+v", h)
		}
		if h.probed(nil, at(6*time.Second)); h.afterFailure {
			t.Error("an answer did not end it")
		}
	})

	t.Run("a_longer_lease_or_interval_makes_a_heartbeat_late_later", func(t *testing.T) {
		for _, c := range []struct{ lease, interval, want time.Duration }{
			{6 * time.Second, 1500 * time.Millisecond, 3 * time.Second},
			{6 * time.Second, 0, 3 * time.Second},
			{20 * time.Second, 1500 * time.Millisecond, 10 * time.Second},
			{6 * time.Second, 2 * time.Second, 4 * time.Second},
			{0, 0, defaultLease / 2},
		} {
			h := heartbeat{view: regent.MemberView{Lease: c.lease}}
			if got := h.lateAfter(c.interval); got != c.want {
				t.Errorf("lease %v, heartbeat %v: late after %v, want %v", c.lease, c.interval, got, c.want)
			}
		}
	})
}
