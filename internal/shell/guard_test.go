package shell

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/memstore"
)

// The loop is stuck while a renewal is answered. The guard ends the term at the old deadline. When the loop goes on,
// the answer must not make the core believe in that term again, nor take the end of its duty for a return.
func TestAnAnswerAfterTheGuard(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		var watching, sent atomic.Bool
		store.OnRequest = func(r memstore.Request) {
			if r.Kind == memstore.Swap && watching.Load() {
				sent.Store(true) // a heartbeat: nothing else is written meanwhile
			}
		}
		a := start(t, store, config("a"), "e")
		await(t, "a leads", time.Second, func() bool { return a.leads("e") })
		term := a.term()
		watching.Store(true)
		a.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: 800 * time.Millisecond}})
		await(t, "a heartbeat is sent", 5*time.Second, sent.Load)

		release := a.blockHost()
		go a.shell.Do(core.Save{ID: 1, Election: "none"}) // its result blocks
		<-term.Context().Done()
		a.client.SetFaults(memstore.Faults{})
		synctest.Wait()
		release()
		await(t, "a leads again", 20*time.Second, func() bool { return a.leads("e") })
		equal(t, "log", fmt.Sprint(a.lines()), "[begin 1 stop 1: partition begin 2]")
		equal(t, "the old term", term.Valid(), false)
		a.shell.Close()
	})
}

// A driver that does not return when its context ends keeps no permit from others.
func TestADriverThatDoesNotReturn(t *testing.T) {
	each(t, func(t *testing.T, store *memstore.Store, config func(string) core.Config) {
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprint("e", i))
		}
		a := &process{t: t, id: "a", client: store.Client("a", memstore.Faults{}), results: map[uint64]core.Result{}}
		a.run(plainStore{a.client}, config("a"))
		a.shell.Do(core.Join{})
		for _, name := range names {
			a.shell.Do(core.Campaign{Election: name})
		}
		await(t, "a leads", time.Second, func() bool { return a.leads("e39") })

		a.client.SetFaults(memstore.Faults{CutAnswers: true, Linger: time.Hour})
		time.Sleep(5 * time.Second)
		a.client.SetFaults(memstore.Faults{})
		await(t, "a leads again", 20*time.Second, func() bool { return a.leads("e0") && a.leads("e39") })
		a.shell.Close()
		time.Sleep(2 * time.Hour)
	})
}

// plainStore has neither batches nor notifications.
type plainStore struct{ driver.Store }
