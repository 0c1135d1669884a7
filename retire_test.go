package regent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// registers returns the names of all registers of the store.
func (c *cluster) registers() []string {
	c.t.Helper()

	var names []string
	for l, err := range c.store.List(c.t.Context(), "") {
		if err != nil {
			c.t.Fatal(err)
		}

		names = append(names, l.Name)
	}

	return names
}

// use leads an election for a moment, and returns the epoch.
func (n *node) use(election string) (epoch uint64) {
	n.c.t.Helper()

	err := n.Lead(n.c.ctx, election, func(_ context.Context, t regent.Term) error {
		epoch = t.Epoch
		return nil
	})
	if err != nil {
		n.c.t.Fatal(err)
	}
	return epoch
}

func TestRetire(t *testing.T) {
	lock := config(regent.Lock())

	t.Run("a_register_is_removed_and_its_epochs_go_on", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			a.use("job")
			before := a.use("job")

			start := time.Now()
			if err := a.Retire(c.ctx, "job", time.Hour); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < time.Hour {
				t.Errorf("it was removed after %v", took)
			}
			if names := c.registers(); len(names) != 1 || names[0] != driver.FloorRegister {
				t.Errorf("the store has %v", names)
			}
			if after := c.member("b", lock).use("job"); after <= before {
				t.Errorf("epoch %d comes after %d", after, before)
			}
		})
	})

	t.Run("a_register_rests_for_the_shortest_time_at_least", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			a.use("job")

			start := time.Now()
			if err := a.Retire(c.ctx, "job", time.Second); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < regent.MinRetireAfter {
				t.Errorf("it was removed after %v", took)
			}
		})
	})

	t.Run("an_election_in_use_is_kept", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			if err := c.member("b", lock).Retire(c.ctx, "seat", 0); !errors.Is(err, regent.ErrInUse) {
				t.Errorf("held: %v", err)
			}

			a.quit()

			time.AfterFunc(5*time.Minute, func() { c.member("c", lock).use("seat") })
			if err := c.member("d", lock).Retire(c.ctx, "seat", 0); !errors.Is(err, regent.ErrInUse) {
				t.Errorf("used meanwhile: %v", err)
			}
		})
	})

	t.Run("the_end_of_the_context_ends_the_wait", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			a.use("job")
			ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
			defer cancel()
			if err := a.Retire(ctx, "job", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if names := c.registers(); len(names) != 2 {
				t.Errorf("the store has %v", names)
			}
		})
	})

	t.Run("bad_input_and_stores_that_remove_nothing_are_errors", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			if err := a.Retire(c.ctx, driver.FloorRegister, 0); err == nil {
				t.Error("a reserved name is accepted")
			}
			if _, err := a.RetirementDuty("seat", time.Minute); err == nil {
				t.Error("a minute is accepted")
			}

			a.Store = struct{ driver.Store }{a.client}
			if err := a.Retire(c.ctx, "job", 0); !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err)
			}
			if _, err := a.RetirementDuty("seat", time.Hour); !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err)
			}
		})
	})
}

// TestRetirementDuty uses a few thousand elections once, beside members that leave and members that die.
func TestRetirementDuty(t *testing.T) {
	bubble(t, func(c *cluster) {
		keeper := c.member("keeper")
		duty, err := keeper.RetirementDuty("coordinator", time.Hour)
		if err != nil {
			t.Fatal(err)
		}

		ctx, stop := context.WithCancel(c.ctx)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_ = keeper.Run(ctx, duty)
		}()

		worker := c.member("worker")
		for i := range 2000 {
			worker.use(fmt.Sprint("job", i))
		}
		for i := range 500 { // a member that runs on forgets what the floor covers
			keeper.use(fmt.Sprint("short", i))
		}

		dead := c.member("dead").lead()
		leader(t, time.Second, dead)
		standby := c.member("standby").lead()
		time.Sleep(time.Minute)
		dead.client.SetFaults(memstore.Faults{Outage: true})
		standby.client.SetFaults(memstore.Faults{Outage: true})

		kept := c.member("kept").lead()
		time.Sleep(50 * time.Minute)
		if n := len(c.registers()); n < 2000 {
			t.Errorf("%d registers are left before their time", n)
		}

		time.Sleep(4 * time.Hour)
		if n, _ := leader(t, 0, kept); n != kept {
			t.Error("nobody leads seat")
		}

		want := map[string]bool{
			driver.FloorRegister: true, "coordinator": true, "seat": true, driver.MemberRegister("keeper"): true,
			driver.MemberRegister("kept"): true,
		}
		for _, name := range c.registers() {
			if !want[name] {
				t.Errorf("%s is still there", name)
			}

			delete(want, name)
		}

		for name := range want {
			t.Errorf("%s was removed", name)
		}
		if n := len(keeper.kinds(regent.EventStoreRetired)); n < 2503 {
			t.Errorf("%d events", n)
		}

		if n := regent.Remembered(keeper.Member); n > 10 {
			t.Errorf("the member remembers the epochs of %d elections", n)
		}

		kept.quit()
		stop()
		<-stopped
		dead.quit()
		standby.quit()
	})
}

// TestRetirementDutyWithManyRegisters has more registers to remove than a slow store answers for in time.
func TestRetirementDutyWithManyRegisters(t *testing.T) {
	bubble(t, func(c *cluster) {
		const registers = 3000
		for i := range registers {
			unused := driver.Record{Name: fmt.Sprint("job", i), Epoch: 3, Nonce: 5, Duration: time.Second}
			if _, err := c.store.Swap(c.ctx, unused); err != nil {
				t.Fatal(err)
			}
		}

		keeper := c.member("keeper")
		keeper.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: 150 * time.Millisecond}})
		duty, err := keeper.RetirementDuty("coordinator", regent.MinRetireAfter)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(c.ctx)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_ = keeper.Run(ctx, duty)
		}()

		time.Sleep(6 * time.Hour)
		if n := len(c.registers()); n > 10 {
			t.Errorf("%d of %d registers are left", n, registers)
		}
		stop()
		<-stopped
	})
}
