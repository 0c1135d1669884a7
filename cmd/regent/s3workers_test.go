package main

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// workersOnS3 is a fleet on S3 that runs polls: three candidates, two workers, and one that does not check epochs.
type workersOnS3 struct {
	*cluster
	log *s3Log
}

func newWorkersOnS3(t *testing.T, s *s3Server) *workersOnS3 {
	t.Helper()
	log := s.logged(t)
	c := newCluster(t, log.address("workers"), everySecond(10, webTarget(t)))
	c.env = s3Env
	c.polls = 10
	c.workers = []string{"w1", "w2", "w3"}

	timing := []string{"--startup-jitter-max", "0", "--lease-duration", "8s", "--heartbeat-interval", "1s",
		"--election-interval", "1s", "--takeover-delay", "300ms"}
	for _, name := range []string{"a", "b", "c"} {
		c.start(name, append([]string{"--worker=false"}, timing...)...)
	}
	for _, name := range c.workers {
		args := append([]string{"--eligible=false"}, timing...)
		if name == "w3" {
			args = append(args, "--epoch-fencing-enabled=false")
		}
		c.start(name, args...)
	}

	c.underWay()
	return &workersOnS3{c, log}
}

// step runs a subtest of nodes that go on afterwards.
func (c *workersOnS3) step(t *testing.T, name string, check func(t *testing.T)) {
	use := func(t *testing.T) {
		c.t = t
		c.log.t = t
		for _, d := range c.nodes {
			d.t = t
		}
	}
	t.Run(name, func(inner *testing.T) {
		use(inner)
		defer use(t)
		check(inner)
	})
}

// epoch returns the epoch of the newest term, as the server's log shows it.
func (c *workersOnS3) epoch() uint64 {
	terms := c.log.terms("coordinator")
	return terms[len(terms)-1].record.Epoch
}

// testWorkersOnS3 stops and cuts off leaders of a fleet that runs polls.
func testWorkersOnS3(t *testing.T, s *s3Server) {
	c := newWorkersOnS3(t, s)
	before := c.epoch()
	first := c.leader()

	c.step(t, "C08_after_a_graceful_stop_a_standby_leads_within_5s", func(t *testing.T) {
		old := first
		delay := watchMachine()
		stopped := time.Now()
		old.signal(syscall.SIGTERM)
		next := c.leader(old)
		took := time.Since(stopped)
		<-old.gone
		t.Logf("%s stopped, %s leads after %v", old.name, next.name, took.Round(time.Millisecond))
		if code := old.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s: exit code %d", old.name, code)
		}
		if late := delay(); took > 5*time.Second && late < time.Second {
			c.excuse(stopped, "%s leads %v after %s was stopped", next.name, took, old.name)
		}
		c.goesOn(c.epoch())
	})
	c.again(first.name).until("/standby", http.StatusOK)

	c.step(t, "E02_E04_every_worker_hears_of_the_new_epoch_and_takes_its_tasks", func(t *testing.T) {
		epoch := c.epoch()
		if epoch <= before {
			t.Errorf("epoch %d after %d", epoch, before)
		}
		for _, w := range c.workers {
			c.nodes[w].learned(epoch)
			waitFor(t, w+" has done work of the new epoch", func() bool {
				return slices.ContainsFunc(c.lines(w), func(l journalLine) bool {
					return l.Outcome == "done" && l.Epoch == epoch
				})
			})
		}
	})

	c.step(t, "E01_every_worker_refuses_an_older_epoch_counts_it_and_names_the_newer_one", func(t *testing.T) {
		for _, w := range []string{"w1", "w2"} {
			f := newFormer(t, c.nodes[w])
			drift := f.figures().EpochDriftEvents
			code, newest, why := f.send(before, false, time.Now())
			if code != http.StatusConflict || newest != c.epoch() || why == "" {
				t.Errorf("%s: %d, beaten by %d: %s", w, code, newest, why)
			}
			if got := f.figures().EpochDriftEvents; got <= drift {
				t.Errorf("%s: epochDriftEvents was %d, and is %d", w, drift, got)
			}
		}
	})

	c.step(t, "E03_a_worker_without_fencing_takes_every_task", func(t *testing.T) {
		f := newFormer(t, c.nodes["w3"])
		for _, epoch := range []uint64{before, 1_000_000} {
			if code, _, why := f.send(epoch, false, time.Now()); code != http.StatusOK {
				t.Errorf("epoch %d: %d %s", epoch, code, why)
			}
		}
		if n := f.figures().EpochDriftEvents; n != 0 {
			t.Errorf("epochDriftEvents is %d", n)
		}
	})

	c.step(t, "C11_a_leader_that_is_cut_off_stops_before_another_leads_and_is_standby_afterwards",
		func(t *testing.T) {
			old := c.leader()
			stop := neverTwo(t, c.nodes["a"], c.nodes["b"], c.nodes["c"])
			c.log.cut(old.name)
			next := c.leader(old)
			epoch := c.epoch()
			c.goesOn(epoch)
			c.log.heal(old.name)
			seen(old, "/readyz", func(h node.Health) bool {
				return h.Role == node.Standby && h.Leader == next.name && h.Epoch == epoch
			})
			stop()
			if got := old.await("lost leadership.*"); !strings.Contains(got, "reason=partition") {
				t.Errorf("%s says %q", old.name, got)
			}
			old.await(`msg="store fails" requests=\w+ error=.*no answer from http://` + c.log.at +
				`.* store="s3://bucket/`)
		})

	c.step(t, "C07_a_killed_leader_is_replaced_and_all_polls_go_on", func(t *testing.T) {
		old := c.leader()
		delay := watchMachine()
		killed := time.Now()
		old.signal(syscall.SIGKILL)
		next := c.leader(old)
		took := time.Since(killed)
		t.Logf("%s was killed, %s leads after %v", old.name, next.name, took.Round(time.Millisecond))
		if late := delay(); took > 10*time.Second && late < time.Second {
			c.excuse(killed, "%s leads %v after %s was killed", next.name, took, old.name)
		}
		<-old.gone
		delete(c.nodes, old.name)
		c.goesOn(c.epoch())
	})

	c.step(t, "C08_no_slot_was_lost_or_doubled", func(t *testing.T) {
		epochsGrow(t, c.all...)
		c.check()
	})
}

// testTakeoverDelayOnS3 is C12: leaders that are silent for a while.
func testTakeoverDelayOnS3(t *testing.T, s *s3Server) {
	const lease, delay = 9 * time.Second, 9 * time.Second
	pair := func(t *testing.T, prefix string) (a, b *daemon, log *s3Log) {
		t.Helper()
		log = s.logged(t)
		timing := []string{"--startup-jitter-max", "0", "--lease-duration", lease.String(), "--stop-timeout", "300ms",
			"--heartbeat-interval", "3s", "--election-interval", "500ms", "--takeover-delay", delay.String(),
			"--reaper=false"}
		a = start(t, "a", log.address(prefix), s3Env("a"), timing...)
		a.until("/leader", http.StatusOK)
		b = start(t, "b", log.address(prefix), s3Env("b"), timing...)
		b.until("/standby", http.StatusOK)
		return a, b, log
	}

	t.Run("C12_a_leader_that_a_standby_could_not_see_for_longer_than_its_lease_leads_on", func(t *testing.T) {
		t.Parallel()
		a, b, log := pair(t, "unseen")
		log.cut("b")
		<-time.After(lease + delay/2)
		log.heal("b")
		<-time.After(lease + delay) // by then a standby would have taken over

		if body := b.until("/standby", http.StatusOK); body["leader"] != "a" || body["epoch"] != 1.0 {
			t.Errorf("b says %v", body)
		}
		if terms := log.terms("coordinator"); len(terms) != 1 {
			t.Errorf("%d terms have begun", len(terms))
		}
		a.stop()
		b.stop()
	})

	t.Run("C12_a_frozen_leader_that_is_back_within_the_delay_leads_again_before_anybody_else", func(t *testing.T) {
		t.Parallel()
		a, b, log := pair(t, "frozen")
		a.signal(syscall.SIGSTOP)
		<-time.After(lease + delay/2)
		stop := neverTwo(t, a, b)
		a.signal(syscall.SIGCONT)
		waitFor(t, "a second term begins", func() bool { return len(log.terms("coordinator")) > 1 })
		<-time.After(delay / 2)
		stop()

		terms := log.terms("coordinator")
		if len(terms) != 2 || terms[1].record.Holder != "a" {
			t.Errorf("%d terms have begun, the last is that of %s", len(terms), terms[len(terms)-1].record.Holder)
		}
		a.stop()
		b.stop()
	})
}
