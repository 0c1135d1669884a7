package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
)

// former sends tasks to a worker as a leader does, with any epoch.
type former struct {
	*daemon // the worker
	target  string
	sent    int
	terms   map[uint64]string // the terms that the worker has learned of, by epoch
}

// newFormer returns a sender of checks of a port that is open.
func newFormer(t *testing.T, worker *daemon) *former {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = l.Close() })
	return &former{daemon: worker, target: l.Addr().String(), terms: map[uint64]string{}}
}

// send sends one task, and returns the status, the newer epoch if the task was refused, and the error.
func (f *former) send(epoch uint64, idempotent bool, dispatched time.Time) (code int, newest uint64, why string) {
	f.t.Helper()
	f.sent++
	code, header, answer := f.do("POST", "/v1/tasks", fmt.Sprintf(
		`{"election":"coordinator","leader":"former","epoch":%d,"term":%q,"dispatchedMs":%d,`+
			`"tasks":[{"id":"task-%d","kind":"tcp","idempotent":%t,"payload":{"target":%q}}]}`,
		epoch, f.terms[epoch], dispatched.UnixMilli(), f.sent, idempotent, f.target))
	if n, ok := answer["epoch"].(float64); ok {
		newest = uint64(n)
	}

	if code == http.StatusConflict && header.Get("Regent-Epoch") != fmt.Sprint(newest) {
		f.t.Errorf("the header names epoch %q, the body %d", header.Get("Regent-Epoch"), newest)
	}
	why, _ = answer["error"].(string)

	return code, newest, why
}

func (f *former) refused(epoch, newest uint64, idempotent bool, dispatched time.Time) {
	f.t.Helper()
	before := f.figures()
	code, by, why := f.send(epoch, idempotent, dispatched)
	if code != http.StatusConflict || by != newest || why == "" {
		f.t.Errorf("epoch %d: %d, beaten by %d: %s", epoch, code, by, why)
	}

	after := f.figures()
	if after.EpochDriftEvents != before.EpochDriftEvents+1 || after.Tasks.Taken != before.Tasks.Taken {
		f.t.Errorf("epochDriftEvents was %d, and is %d; tasks taken were %d, and are %d", before.EpochDriftEvents,
			after.EpochDriftEvents, before.Tasks.Taken, after.Tasks.Taken)
	}
}

func (f *former) taken(epoch uint64, idempotent bool, dispatched time.Time) {
	f.t.Helper()
	before := f.figures()

	if code, _, why := f.send(epoch, idempotent, dispatched); code != http.StatusOK {
		f.t.Errorf("epoch %d: %d %s", epoch, code, why)
	}
	after := f.figures()
	if after.EpochDriftEvents != before.EpochDriftEvents || after.Tasks.Taken != before.Tasks.Taken+1 {
		f.t.Errorf("epochDriftEvents was %d, and is %d; tasks taken were %d, and are %d", before.EpochDriftEvents,
			after.EpochDriftEvents, before.Tasks.Taken, after.Tasks.Taken)
	}
}

func (d *daemon) figures() api.Figures {
	d.t.Helper()
	return seen(d, "/v1/metrics", func(api.Figures) bool { return true })
}

// learned waits until a worker has learned of an epoch from its own member, and returns the term.
func (d *daemon) learned(epoch uint64) (term string) {
	d.t.Helper()
	e := d.happens(regent.EventLeaderChanged, func(e regent.Event) bool { return e.Epoch == epoch })
	if e.Metadata["term"] == "" {
		d.t.Fatalf("%s: event %+v names no term", d.name, e)
	}

	return e.Metadata["term"]
}

// learned makes the sender name the terms that the worker knows.
func (f *former) learned(epochs ...uint64) {
	f.t.Helper()
	for _, epoch := range epochs {
		f.terms[epoch] = f.daemon.learned(epoch)
	}
}

// TestFencing sends tasks to a real worker as a former leader would.
func TestFencing(t *testing.T) {
	other := map[string]string{"a": "b", "b": "a"}

	// terms hands leadership over until there is a term of an epoch.
	terms := func(c *cluster, upTo uint64) {
		c.t.Helper()

		for {
			d := c.leader()
			epoch := uint64(d.until("/leader", 200)["epoch"].(float64))
			if epoch == upTo {
				return
			}

			c.nodes[other[d.name]].until("/standby", 200)
			code, _, answer := d.do("POST", "/v1/elections/coordinator/handoff",
				fmt.Sprintf(`{"epoch":%d,"to":%q}`, epoch, other[d.name]))
			if code != http.StatusOK {
				c.t.Fatalf("%d %v", code, answer)
			}

			c.nodes["w"].learned(epoch + 1)
		}
	}

	// cluster starts two candidates, and a worker that knows of epoch 6.
	cluster := func(t *testing.T, config string, args ...string) (*cluster, *former) {
		t.Helper()
		c := newCluster(t, sqliteStore(t), config)
		c.workers = []string{"w"}

		for name := range other { // a node that has handed over holds back for both intervals
			c.start(name, "--worker=false", "--election-interval", "100ms", "--heartbeat-interval",
				"400ms").await("msg=member:joined")
		}

		w := c.start("w", append([]string{"--eligible=false"}, args...)...)
		w.until("/readyz", 200)
		terms(c, 6)
		f := newFormer(t, w)
		f.learned(5, 6)

		return c, f
	}
	long := func() time.Time { return time.Now().Add(-time.Minute) }

	t.Run("E01_E02_E12_an_older_epoch_is_refused_with_the_one_that_beats_it_and_a_newer_one_taken", func(t *testing.T) {
		t.Parallel()
		c, f := cluster(t, "")
		f.refused(5, 6, false, time.Now())
		f.refused(5, 6, true, long())
		f.refused(4, 6, true, time.Now())
		f.refused(1, 6, false, time.Now())
		f.taken(6, false, time.Now())
		f.await(`msg="refused tasks of a former leader" leader=former epoch=5 newest=6`)
		f.taken(7, false, time.Now())
		f.refused(6, 7, false, time.Now())
		f.taken(7, false, long())

		// A request for results is refused too.
		code, header, answer := f.do("POST", "/v1/tasks/results",
			`{"election":"coordinator","leader":"former","epoch":6}`)
		if code != http.StatusConflict || header.Get("Regent-Epoch") != "7" || answer["epoch"] != 7.0 {
			t.Errorf("%d %v %v", code, header, answer)
		}
		if s := f.figures(); s.Tasks.Taken != 3 || s.Tasks.Stale != 6 || s.EpochDriftEvents != 6 {
			t.Errorf("%+v", s)
		}

		// A refused task has not begun.
		waitFor(c.t, "all that was taken has ended", func() bool { return f.figures().Tasks.Outcomes["done"] == 3 })

		for _, l := range c.lines("w") {
			if l.Epoch < 6 {
				t.Errorf("the journal has %+v", l)
			}
		}
	})

	t.Run("E01_another_term_with_the_epoch_of_the_leader_is_refused", func(t *testing.T) {
		t.Parallel()
		_, f := cluster(t, "")
		real := f.terms[6]

		for _, term := range []string{"ghost", ""} {
			f.terms[6] = term
			f.refused(6, 6, true, time.Now())
		}

		f.await(`msg="refused tasks of a former leader" leader=former epoch=6 newest=6 .*epoch 6 of term ghost is ` +
			`refused: it belongs to term ` + real)
		code, header, answer := f.do("POST", "/v1/tasks/results",
			`{"election":"coordinator","leader":"former","epoch":6,"term":"ghost"}`)
		if code != http.StatusConflict || header.Get("Regent-Epoch") != "6" || header.Get("Regent-Term") != real ||
			answer["term"] != real {
			t.Errorf("%d %v %v", code, header, answer)
		}

		f.terms[6] = real
		f.taken(6, false, time.Now())
	})

	t.Run("E02_E04_the_worker_learns_of_a_real_successor_before_its_first_task", func(t *testing.T) {
		t.Parallel()
		c, f := cluster(t, "")
		terms(c, 7)
		f.learned(7)
		f.refused(6, 7, false, time.Now())
		f.taken(7, false, time.Now())
	})

	t.Run("E03_without_fencing_everything_is_taken", func(t *testing.T) {
		t.Parallel()
		_, f := cluster(t, "", "--epoch-fencing-enabled=false")
		for _, epoch := range []uint64{5, 1, 6, 1_000_000, 2} {
			f.taken(epoch, false, long())
		}

		if n := f.figures().EpochDriftEvents; n != 0 {
			t.Errorf("%d drifts", n)
		}
	})

	t.Run("E11_E12_idempotent_work_of_the_last_epoch_has_a_grace_and_nothing_else_has", func(t *testing.T) {
		t.Parallel()
		c, f := cluster(t, "", "--epoch-grace-period", "4s")
		terms(c, 7)
		f.learned(7)
		f.taken(6, true, time.Now())
		f.await(`level=WARN msg="took a task of the last leader" epoch=6 newest=7`)

		if n := f.figures().Tasks.Late; n != 1 {
			t.Errorf("%d late tasks are counted", n)
		}

		f.refused(6, 7, false, time.Now())
		f.refused(6, 7, true, long())
		f.refused(6, 7, true, time.Now().Add(time.Minute)) // a time in the future says nothing about its age
		f.refused(5, 7, true, time.Now())

		// The grace period ends, however fresh the task is.
		for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
			code, newest, why := f.send(6, true, time.Now())
			if code == http.StatusConflict && newest == 7 {
				break
			}
			if code != http.StatusOK {
				t.Fatalf("%d %s", code, why)
			}
		}

		f.refused(6, 7, true, time.Now())
	})

	t.Run("E13_a_killed_worker_remembers_without_any_help", func(t *testing.T) {
		t.Parallel()
		c, f := cluster(t, "")
		f.taken(6, false, time.Now())
		f.signal(syscall.SIGKILL)
		<-f.gone

		// The worker cannot learn the epoch again: there is no store.
		again := newFormer(t, start(t, "w", newRedis(t).address(), nil, c.args["w"]...))
		again.await("store unreachable")
		again.sent = 100
		again.terms = f.terms
		again.refused(5, 6, false, time.Now())
		again.refused(5, 6, true, time.Now()) // it does not know when it learned of the epoch
		again.taken(6, false, time.Now())
		again.sent = 0 // the task from before: it is not run again

		if code, _, why := again.send(6, false, time.Now()); code != http.StatusOK {
			t.Errorf("%d %s", code, why)
		}
		if s := again.figures().Tasks; s.Duplicates != 1 || s.Taken != 1 {
			t.Errorf("%+v", s)
		}

		again.stop()

		// With its store it goes on as before.
		f = newFormer(t, c.again("w"))
		f.terms = again.terms
		f.until("/readyz", 200)
		f.sent = 200
		f.refused(5, 6, true, time.Now())
		f.taken(6, false, time.Now())
	})

	t.Run("E02_a_forged_jump_far_ahead_is_refused_and_the_real_leader_goes_on", func(t *testing.T) {
		t.Parallel()
		target := webTarget(t)
		c, f := cluster(t, everySecond(1, target))
		c.polls = 1
		c.goesOn(6)
		before := f.figures().Tasks.Taken

		for _, epoch := range []uint64{1_000_000, 8, 1<<62 - 1} {
			code, _, why := f.send(epoch, true, time.Now())
			if code != http.StatusServiceUnavailable || !strings.Contains(why, "not confirmed") ||
				!strings.Contains(why, "no epoch beyond 6") {
				t.Errorf("epoch %d: %d %s", epoch, code, why)
			}
		}

		if code, _, why := f.send(1<<64-1, true, time.Now()); code != http.StatusBadRequest ||
			!strings.Contains(why, "no counting of terms can reach") {
			t.Errorf("the largest number: %d %s", code, why)
		}

		f.await(`level=ERROR msg="fence check failed: nothing was accepted" leader=former epoch=1000000`)
		c.goesOn(6)

		if n := f.figures().Tasks.Taken; n <= before {
			t.Errorf("%d tasks were taken before, %d after", before, n)
		}
		if code, by, why := f.send(5, false, time.Now()); code != http.StatusConflict || by != 6 {
			t.Errorf("epoch 5: %d, beaten by %d: %s", code, by, why)
		}
		if body := c.leader().until("/leader", 200); body["epoch"] != 6.0 {
			t.Errorf("the leader was unseated: %v", body)
		}

		c.check()
	})

	t.Run("E01_E02_a_leader_that_learns_of_a_newer_epoch_steps_down_and_the_next_one_is_beyond_it",
		func(t *testing.T) {
			t.Parallel()
			c, f := cluster(t, everySecond(1, webTarget(t)))
			c.polls = 1
			c.goesOn(6)
			a := c.leader()

			// the next epoch is accepted without asking the store
			if code, _, why := f.send(7, false, time.Now()); code != http.StatusOK {
				t.Fatalf("%d %s", code, why)
			}

			a.await(`msg="lost leadership" .* epoch=6`)
			c.goesOn(7)
			c.check()
		})
}
