package shell

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

func TestLeadAndClose(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		time.Sleep(time.Minute)
		equal(t, "leads after a minute", a.leads("e"), true)
		equal(t, "remaining", a.term().Remaining() > 3*time.Second, true)

		a.shell.Close()
		equal(t, "log", fmt.Sprint(a.lines()), "[begin 1 stop 1: shutdown]")
		equal(t, "remaining afterwards", a.term().Remaining(), 0)
		r, err := store.Get(t.Context(), "e")
		if err != nil || !r.Vacant() || r.Epoch != 1 {
			t.Errorf("the record is %+v, %v", r, err)
		}
		a.shell.Close() // once more is no fault
	})
}

func TestHandover(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		var watching atomic.Bool
		var first atomic.Value
		store.OnRequest = func(r memstore.Request) {
			if r.Client == "b" && r.Name == "e" && watching.Load() {
				first.CompareAndSwap(nil, r.Kind)
			}
		}
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		b := start(t, store, config("b"), "e")
		time.Sleep(3 * time.Second)

		watching.Store(true)
		a.shell.Close()
		synctest.Wait()
		equal(t, "b leads as soon as it is notified", b.leads("e"), true)
		equal(t, "b's first request about the election", first.Load(), any(memstore.Swap))
		b.shell.Close()
	})
}

func TestFaultsUnderALeader(t *testing.T) {
	for name, faults := range map[string]memstore.Faults{
		"refused": {Outage: true},
		"slow": {Request: memstore.Delay{Min: 400 * time.Millisecond},
			Answer: memstore.Delay{Min: 400 * time.Millisecond}},
		"answers_lost":  {CutAnswers: true},
		"requests_lost": {CutRequests: true},
		"late_driver":   {CutAnswers: true, Linger: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
				a := start(t, store, config("a"), "e")
				await(t, "a leads", time.Second, func() bool { return a.leads("e") })
				b := start(t, store, config("b"), "e")
				time.Sleep(3 * time.Second)

				term := a.term()
				a.client.SetFaults(faults)
				neverTwo(t, 20*time.Second, a, b)
				equal(t, "a keeps its term", term.Valid(), name == "slow")
				equal(t, "b leads", b.leads("e"), name != "slow")

				a.client.SetFaults(memstore.Faults{})
				neverTwo(t, 10*time.Second, a, b)
				equal(t, "somebody leads", a.leads("e") || b.leads("e"), true)
				b.shell.Close()
				await(t, "a leads again", 10*time.Second, func() bool { return a.leads("e") })
				a.shell.Close()
			})
		})
	}
}

// A server that was stopped keeps its connections: no request is refused, and none is answered.
func TestAHungStoreUnderALeader(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		b := start(t, store, config("b"), "e")
		time.Sleep(3 * time.Second)

		term := a.term()
		deadline := time.Now().Add(term.Remaining())
		store.Hang()
		<-term.Context().Done()
		equal(t, "the context ends before the deadline", time.Now().Before(deadline.Add(1500*time.Millisecond)), true)
		equal(t, "cause", context.Cause(term.Context()), error(causeError(core.Partitioned)))
		equal(t, "valid", term.Valid(), false)
		neverTwo(t, 20*time.Second, a, b)
		equal(t, "the loop waits for nothing", a.shell.Lag(), 0)

		store.Resume()
		await(t, "somebody leads", 15*time.Second, func() bool { return a.leads("e") || b.leads("e") })
		neverTwo(t, 20*time.Second, a, b)
		a.shell.Close()
		b.shell.Close()
	})
}

func TestAStoreThatHasGoneBack(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		before := store.Snapshot()
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		b := start(t, store, config("b"), "e")
		time.Sleep(3 * time.Second)

		for range 2 {
			store.Rollback(before)
			neverTwo(t, 20*time.Second, a, b)
			await(t, "somebody leads", 20*time.Second, func() bool { return a.leads("e") || b.leads("e") })
		}
		lost := 0
		for _, p := range []*process{a, b} {
			p.mu.Lock()
			for _, e := range p.events {
				if e.Kind == core.EventRegressed {
					lost++
				}
			}
			p.mu.Unlock()
		}
		if lost == 0 {
			t.Error("nobody has noticed that the store has gone back")
		}
		a.shell.Close()
		b.shell.Close()
	})
}

// The loop is stuck in a callback of the host: nothing is sent, and nothing is taken in. The term ends all the same.
func TestAStuckLoop(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		b := start(t, store, config("b"), "e")
		time.Sleep(3 * time.Second)

		term := a.term()
		release := a.blockHost()
		a.shell.Do(core.Observed{}) // it does not block either
		<-term.Context().Done()
		equal(t, "time left when the context ends", term.lease.until() == expired, true)
		equal(t, "valid", term.Valid(), false)
		equal(t, "leads", a.leads("e"), false)
		equal(t, "cause", context.Cause(term.Context()), error(causeError(core.Partitioned)))
		await(t, "b leads", 10*time.Second, func() bool { return b.leads("e") })
		equal(t, "the lag shows", a.shell.Lag() > 4*time.Second, true)

		release()
		neverTwo(t, 20*time.Second, a, b)
		equal(t, "a campaigns on", fmt.Sprint(a.lines()), "[begin 1 stop 1: partition]")
		b.shell.Close()
		await(t, "a leads again", 10*time.Second, func() bool { return a.leads("e") })
		a.shell.Close()
	})
}

// The guard ends a term at the moment that the core has named, before the deadline.
func TestTheGuardIsInTime(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		term := a.term()
		left := term.Remaining()
		began := time.Now()
		release := a.blockHost()
		store.Hang() // so that no renewal moves the deadline before the callback blocks
		<-term.Context().Done()
		trust := (6*time.Second - 12*time.Millisecond - time.Second) / 100
		equal(t, "ended after", time.Since(began), left-trust)
		store.Resume()
		release()
		a.shell.Close()
	})
}

func TestADriverThatPanics(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := &process{t: t, id: "a", client: store.Client("a", memstore.Faults{}), results: map[uint64]core.Result{}}
		bomb := &panicking{Client: a.client}
		a.run(bomb, clusterConfig("a"))
		a.shell.Do(core.Join{}, core.Campaign{Election: "e"})
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })

		bomb.armed.Store(true)
		time.Sleep(2 * time.Second)
		a.mu.Lock()
		n := len(a.panics)
		a.mu.Unlock()
		if n == 0 {
			t.Error("the panic was not reported")
		}
		bomb.armed.Store(false)
		a.shell.Do(core.Close{Cause: core.Panicked})
		<-a.shell.Closed()
		equal(t, "log", fmt.Sprint(a.lines()), "[begin 1 stop 1: panic]")
		a.shell.Close()
	})
}

type panicking struct {
	*memstore.Client
	armed atomic.Bool
}

func (p *panicking) Swap(ctx context.Context, r driver.Record) (driver.Record, error) {
	if p.armed.Load() {
		panic(errBroken)
	}
	return p.Client.Swap(ctx, r)
}

// A panic of the host's own callback ends all terms: nobody steps the core any more.
func TestAHostThatPanics(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, store, clusterConfig("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		term := a.term()

		a.bomb.Store(true)
		a.shell.Do(core.Save{ID: 1, Election: "none"})
		<-term.Context().Done()
		equal(t, "cause", context.Cause(term.Context()), error(causeError(core.Panicked)))
		equal(t, "leads", a.leads("e"), false)
		a.shell.Close()
		if len(a.panics) != 1 || !errors.As(a.panics[0], new(*PanicError)) {
			t.Errorf("reported: %v", a.panics)
		}
	})
}

// What is due together is one request, where the store can do that.
func TestBatches(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		const n = 3000
		a := &process{t: t, id: "a", client: store.Client("a", memstore.Faults{}), results: map[uint64]core.Result{}}
		a.run(a.client, config("a"))
		var in []core.Input
		for i := range n {
			in = append(in, core.Campaign{Election: fmt.Sprintf("e%04d", i)})
		}
		a.shell.Do(append(in, core.Join{})...)
		await(t, "a leads all", time.Second, func() bool {
			for i := range n {
				if !a.leads(fmt.Sprintf("e%04d", i)) {
					return false
				}
			}
			return true
		})
		if c := a.client.Counts(); c.Total() > 100 {
			t.Errorf("%d elections took %+v", n, c)
		}
		a.shell.Close()
		for i := range n {
			if r, err := store.Get(t.Context(), fmt.Sprintf("e%04d", i)); err != nil || !r.Vacant() {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

// A store without batches gets no more than so many requests at once, and a hung one does not collect goroutines.
func TestRequestsAreBounded(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := &process{t: t, id: "a", client: store.Client("a", memstore.Faults{}), results: map[uint64]core.Result{}}
		plain := &counting{Store: a.client}
		a.run(plain, clusterConfig("a"))
		a.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: 10 * time.Millisecond}})
		for i := range 500 {
			a.shell.Do(core.Campaign{Election: fmt.Sprint("e", i)})
		}
		a.shell.Do(core.Join{})
		await(t, "a leads the last", time.Minute, func() bool { return a.leads("e499") })
		if most := plain.most.Load(); most > maxActive || most < maxActive/2 {
			t.Errorf("%d requests at once", most)
		}

		a.client.SetFaults(memstore.Faults{CutAnswers: true, Linger: time.Hour})
		time.Sleep(5 * time.Minute)
		if n := plain.now.Load(); n > maxActive+maxLate {
			t.Errorf("%d requests are under way", n)
		}
		began := time.Now()
		a.shell.Close()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(2 * time.Hour)
		equal(t, "requests that are left", plain.now.Load(), 0)
	})
}
