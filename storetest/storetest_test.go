package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// A correct store passes, however it is implemented.
func TestSoundStoresPass(t *testing.T) {
	next, mu := counter(), sync.Mutex{}
	for name, fresh := range map[string]func() Open{
		"with_everything": func() Open { return breakStore(func(*brokenStore) {}) },
		"with_nothing_optional": func() Open {
			return openPlain(func() func(driver.Record) string {
				return func(l driver.Record) string {
					mu.Lock()
					defer mu.Unlock()
					return next(l)
				}
			})
		},
		"that_expires_records": func() Open { return new(expiry).open() },
		"that_skims":           skims(func(*skimming) {}),
	} {
		for _, c := range checks() {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				parallel(t, c.name)
				c.run(newRig(t, fresh(), 30*time.Second))
			})
		}
	}
}

// parallel runs the test of a check beside others, unless the check counts the goroutines of the process.
func parallel(t *testing.T, name string) {
	if !slices.ContainsFunc(leakChecks, func(c check) bool { return c.name == name }) {
		t.Parallel()
	}
}

// A notification may be the zero Record, or name its register, or carry its record as memstore's do.
func TestEveryFormOfHintPasses(t *testing.T) {
	for name, form := range map[string]func(driver.Record) driver.Record{
		"names": func(l driver.Record) driver.Record { return driver.Record{Name: l.Name} },
		"bare":  func(driver.Record) driver.Record { return driver.Record{} },
	} {
		for _, c := range notifyChecks {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newRig(t, reworded(name, form).fresh(), 30*time.Second))
			})
		}
	}
}

// Every broken store is caught by the checks that name its fault, and every check catches some broken store.
func TestBrokenStoresAreCaught(t *testing.T) {
	all := map[string]check{}
	for _, c := range checks() {
		all[c.name] = c
	}

	caught := map[string]bool{}
	for _, m := range slices.Concat(
		brokenRegisters(), brokenRaces(), brokenCalls(), brokenLists(t), brokenExtras(t), brokenRefreshes(),
		brokenRemovals(), brokenSkims(), brokenFollows(), brokenCounts(),
	) {
		for _, by := range m.caught {
			caught[by] = true
			wantCaught(t, m.name, by, all, func(c check) (check, Open) { return c, m.fresh() })
		}
	}
	wantAllUsed(t, all, caught)
}

// wantCaught wants the check called by to fail on a broken store. prepare returns the check to run, and that store.
func wantCaught[C any](t *testing.T, name, by string, all map[string]C, prepare func(C) (check, Open)) {
	t.Helper()
	c, ok := all[by]
	if !ok {
		t.Fatalf("no check is called %q", by)
	}

	t.Run(name+"/"+by, func(t *testing.T) {
		parallel(t, by)
		run, open := prepare(c)
		failures, skipped := record(t, run, open, 500*time.Millisecond)
		if len(failures) == 0 {
			t.Fatalf("the suite does not notice (skipped: %v)", skipped)
		}
		t.Log(failures[0])
	})
}

// wantAllUsed wants every check to have caught a broken store.
func wantAllUsed[C any](t *testing.T, all map[string]C, caught map[string]bool) {
	t.Helper()
	for name := range all {
		if !caught[name] {
			t.Errorf("no broken store shows that %q catches anything", name)
		}
	}
}

// mutant is a store with one fault.
type mutant struct {
	name   string
	caught []string // by all of these
	fresh  func() Open
}

// broken makes a mutant whose clients are all broken in the same way.
func broken(name string, how func(t *brokenStore), caught ...string) mutant {
	return mutant{name, caught, func() Open { return breakStore(how) }}
}
