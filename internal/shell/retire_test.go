package shell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// retire asks for retirements, waits for as long as they take, and returns their results.
func (p *process) retire(names ...string) []core.ResultCode {
	for i, name := range names {
		p.shell.Do(core.Retire{ID: uint64(i + 1), Register: name})
	}
	time.Sleep(driver.Rest + 2*time.Minute)
	synctest.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	codes := make([]core.ResultCode, len(names))
	for i := range names {
		codes[i] = p.results[uint64(i+1)].Result
	}
	return codes
}

func restingConfig(id string) core.Config {
	cfg := clusterConfig(id)
	cfg.Rest = driver.Rest
	return cfg
}

// left writes a register that nobody holds any more.
func left(t *testing.T, store driver.Store, name string, epoch uint64) {
	t.Helper()
	_, err := store.Swap(t.Context(), driver.Record{Name: name, Epoch: epoch, Nonce: 1, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
}

func missing(t *testing.T, store driver.Store, name string) bool {
	t.Helper()
	_, err := store.Get(t.Context(), name)
	return errors.Is(err, driver.ErrNotFound)
}

func TestRetire(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		gone, named := driver.MemberRegister("gone"), driver.MemberRegister("named")
		left(t, store, "old", 7)
		left(t, store, gone, 2)
		left(t, store, named, 2)
		held := driver.Record{Name: "x", Holder: driver.Identity{ID: "named", Incarnation: "2.i"}, Epoch: 1, Via: named}
		if _, err := store.Swap(t.Context(), held); err != nil {
			t.Fatal(err)
		}

		p := start(t, store, restingConfig("a"), "e")
		defer p.shell.Close()
		synctest.Wait()
		codes := p.retire("old", gone, named, "e")
		for i, want := range []core.ResultCode{core.OK, core.OK, core.InUse, core.InUse} {
			if codes[i] != want {
				t.Errorf("retirement %d: result %d, want %d", i, codes[i], want)
			}
		}
		if !missing(t, store, "old") || !missing(t, store, gone) || missing(t, store, named) {
			t.Error("the wrong registers were removed")
		}
		if n := store.Counts().Lists; n != 1 {
			t.Errorf("%d lists for two members, want 1", n)
		}

		p.shell.Do(core.Campaign{Election: "old"})
		synctest.Wait()
		if l, err := store.Get(t.Context(), "old"); err != nil || l.Epoch != 8 {
			t.Errorf("the election comes back in epoch %d (%v), want 8", l.Epoch, err)
		}
	})
}

// keeper is a store that cannot remove registers.
type keeper struct{ driver.Store }

func TestAStoreThatCannotRemove(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		left(t, store, "old", 7)
		p := &process{t: t, id: "a", results: map[uint64]core.Result{}}
		p.run(keeper{store}, restingConfig("a"))
		defer p.shell.Close()
		p.shell.Do(core.Join{})
		if code := p.retire("old")[0]; code != core.InUse || missing(t, store, "old") {
			t.Errorf("result %d, want %d", code, core.InUse)
		}
	})
}

func TestAnUnreadableRegisterMayNameAMember(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		gone := driver.MemberRegister("gone")
		left(t, store, gone, 2)
		left(t, store, "broken", 1)
		store.SetUnreadable("broken")
		p := start(t, store, restingConfig("a"))
		defer p.shell.Close()
		if code := p.retire(gone)[0]; code != core.Unanswered || missing(t, store, gone) {
			t.Errorf("result %d, want %d", code, core.Unanswered)
		}
	})
}

func TestRetirementOverAFaultyStore(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		left(t, store, "old", 7)
		p := start(t, store, restingConfig("a"))
		defer p.shell.Close()
		p.client.SetFaults(memstore.Faults{Seed: 3, LoseAnswer: 0.3, LoseRequest: 0.2,
			Timeout: memstore.Delay{Max: time.Second}})
		if code := p.retire("old")[0]; code != core.OK {
			t.Errorf("result %d, want %d", code, core.OK)
		}
		p.client.SetFaults(memstore.Faults{})
		if _, err := store.Get(context.Background(), "old"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("the register is still there: %v", err)
		}
	})
}
