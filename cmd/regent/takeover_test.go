package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTakeoverDelay is C12 with real processes. A leader that was only not seen keeps its term. A leader that was
// silent for longer than its lease has ended its term by itself. If it is back within the delay, it leads again, in a
// new term, before anybody else.
func TestTakeoverDelay(t *testing.T) {
	const lease, delay = 9 * time.Second, 9 * time.Second
	timing := func(delay time.Duration) []string {
		return []string{"--profile", "cluster", "--lease-duration", lease.String(), "--stop-timeout", "300ms",
			"--heartbeat-interval", "3s",
			"--election-interval", "500ms", "--takeover-delay", delay.String(), "--reaper=false"}
	}

	// silent waits until a time between the end of the lease and the end of the delay.
	silent := func() { <-time.After(lease + delay/2) }

	// pair starts a leader and a standby. The standby sees Redis through the proxy.
	pair := func(t *testing.T, delay time.Duration) (a, b *daemon, p *proxy) {
		r := startRedis(t)
		p = startProxy(t, "127.0.0.1:"+r.port)
		a = start(t, "a", r.address(), nil, timing(delay)...)
		a.until("/leader", 200)
		b = start(t, "b", p.address(), nil, timing(delay)...)
		b.until("/standby", 200)

		return a, b, p
	}

	for name, unseen := range map[string]func(*daemon, *proxy) (again func()){
		"answers_cut": func(_ *daemon, p *proxy) func() {
			p.cutFrom.Store(true)
			return p.heal
		},
		"both_ways_cut": func(_ *daemon, p *proxy) func() {
			p.cutTo.Store(true)
			p.cutFrom.Store(true)
			return p.heal
		},
		"standby_frozen": func(b *daemon, _ *proxy) func() {
			b.signal(syscall.SIGSTOP)
			return func() { b.signal(syscall.SIGCONT) }
		},
	} {
		t.Run("C12_a_leader_that_was_not_seen_for_longer_than_its_lease_stays_"+name, func(t *testing.T) {
			t.Parallel()
			a, b, p := pair(t, delay)
			again := unseen(b, p)
			silent()
			again()
			<-time.After(lease + delay) // by then a standby would have taken over

			if body := b.until("/standby", 200); body["leader"] != "a" || body["epoch"] != 1.0 {
				t.Errorf("b says %v", body)
			}
			if body := a.until("/leader", 200); body["epoch"] != 1.0 || len(a.said("became leader")) != 1 ||
				len(b.said("became leader")) != 0 {
				t.Errorf("a says %v", body)
			}

			a.stop()
			b.stop()
		})
	}

	t.Run("C12_a_silent_leader_that_is_back_within_the_delay_leads_again_before_anybody_else", func(t *testing.T) {
		t.Parallel()
		a, b, _ := pair(t, delay)
		a.signal(syscall.SIGSTOP)
		silent()

		if body := b.until("/standby", 200); body["leader"] != "a" || body["epoch"] != 1.0 {
			t.Errorf("b says %v", body)
		}

		stop := neverTwo(t, a, b)
		a.signal(syscall.SIGCONT)

		// It has ended its first term at its deadline, and has the next one.
		if got := a.await("lost leadership.*"); !strings.Contains(got, "reason=partition") {
			t.Errorf("a says %q", got)
		}

		for a.until("/leader", 200)["epoch"] != 2.0 {
		}

		<-time.After(delay / 2)
		stop()

		if mine, _ := a.terms("became leader"); !slices.Equal(mine, []uint64{1, 2}) ||
			len(b.said("became leader")) != 0 {
			t.Errorf("a led in %v, b said %q", mine, b.said("became leader"))
		}

		a.stop()
		b.stop()
	})

	t.Run("C13_without_a_delay_it_is", func(t *testing.T) {
		t.Parallel()
		a, b, _ := pair(t, 0)
		a.signal(syscall.SIGSTOP)
		silent()

		if body := b.until("/leader", 200); body["epoch"] != 2.0 {
			t.Errorf("b says %v", body)
		}
		a.signal(syscall.SIGCONT)
		a.until("/standby", 200)
		a.stop()
		b.stop()
	})
}
