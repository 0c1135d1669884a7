package health

import (
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// state returns a member with a number of heartbeats, of which the newest has an age.
func state(heartbeats int, age time.Duration) regent.MemberState {
	return regent.MemberState{
		MemberView:   regent.MemberView{ID: "b", Incarnation: "1", Lease: lease},
		Alive:        age < lease,
		HeartbeatAge: age,
		Heartbeats:   heartbeats,
	}
}

func TestHeartbeat(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	// list updates a heartbeat with a listing that takes no time.
	list := func(h *heartbeat, s regent.MemberState, when time.Duration) (joined bool) {
		return h.update(s, at(when), at(when))
	}

	t.Run("that_has_stopped_expires_at_the_second_check", func(t *testing.T) {
		const latency = 10 * time.Millisecond
		var h heartbeat
		h.update(state(1, 0), at(0), at(latency))
		checks := 0
		for !h.expired() {
			due := h.nextCheck(interval)
			if due.IsZero() || !due.After(h.listed) {
				t.Fatalf("due at %v after a check at %v", due.Sub(start), h.listed.Sub(start))
			}
			h.update(state(1, due.Sub(at(latency))), due, due.Add(latency))
			checks++
		}
		if checks != 2 || h.silentFor() != lease || !h.nextCheck(interval).IsZero() {
			t.Errorf("expired after %d checks and %v", checks, h.silentFor())
		}
	})

	t.Run("is_uncertain_until_it_is_seen", func(t *testing.T) {
		var h heartbeat
		if !list(&h, state(1, 0), 0) || h.confirmed() || h.nextCheck(interval) != at(2*interval) {
			t.Errorf("first seen: %+v", h)
		}
		if list(&h, state(2, 0), time.Second); !h.confirmed() || !h.nextCheck(interval).IsZero() {
			t.Errorf("seen again: %+v", h)
		}
		if list(&h, state(2, time.Second), 2*time.Second); !h.nextCheck(interval).IsZero() {
			t.Error("a heartbeat of one second ago is checked again")
		}
		list(&h, state(2, 3*time.Second), 4*time.Second)
		if !h.late(interval) || h.nextCheck(interval) != at(time.Second+lease) {
			t.Errorf("late: %+v", h)
		}
	})

	t.Run("counts_as_sent_after_a_failed_probe_only_if_that_is_certain", func(t *testing.T) {
		refused := errors.New("refused")
		var h heartbeat
		list(&h, state(1, 0), 0)
		list(&h, state(2, 0), time.Second)
		h.probed(refused, at(1100*time.Millisecond))
		list(&h, state(3, 0), 2*time.Second) // it may be from before the probe
		if h.afterFailure {
			t.Error("counted too early")
		}

		h.probed(refused, at(2100*time.Millisecond))
		list(&h, state(3, time.Second), 3*time.Second)
		if h.afterFailure || h.nextCheck(interval) != at(2*time.Second+2*interval) {
			t.Errorf("no new heartbeat: %+v", h)
		}
		list(&h, state(4, 0), 5*time.Second)
		if !h.afterFailure || !h.nextCheck(interval).IsZero() {
			t.Errorf("certain: %+v", h)
		}
		if h.probed(nil, at(6*time.Second)); h.afterFailure {
			t.Error("an answer did not end it")
		}
	})

	t.Run("is_late_later_with_a_longer_lease_or_interval", func(t *testing.T) {
		for _, c := range []struct{ lease, interval, want time.Duration }{
			{6 * time.Second, 1500 * time.Millisecond, 3 * time.Second},
			{6 * time.Second, 0, 3 * time.Second},
			{20 * time.Second, 1500 * time.Millisecond, 10 * time.Second},
			{6 * time.Second, 2 * time.Second, 4 * time.Second},
		} {
			h := heartbeat{view: regent.MemberView{Lease: c.lease}}
			if got := h.lateAfter(c.interval); got != c.want {
				t.Errorf("lease %v, interval %v: late after %v, want %v", c.lease, c.interval, got, c.want)
			}
		}
	})
}
