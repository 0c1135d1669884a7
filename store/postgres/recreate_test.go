package postgres

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// TestTableDropped drops the table under members. They create it again, and lead beyond the epochs that they know.
func TestTableDropped(t *testing.T) {
	table := newTable(t)
	var mu sync.Mutex
	var warned []string
	var w workers
	known := make(chan struct{}) // closed when the standby knows the leader
	var once sync.Once
	for _, id := range []string{"a", "b"} {
		s := open(t, Options{Table: table, OnWarning: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			warned = append(warned, text)
		}})
		m := &regent.Member{ID: id, Store: s, Config: regent.Cluster(), OnEvent: func(e regent.Event) {
			if e.Kind == regent.EventLeaderChanged {
				once.Do(func() { close(known) })
			}
		}}
		storetest.RunMember(t, m, regent.Duty{Election: "e", Run: w.run})
	}
	eventually(t, "a first leader", func() bool { _, running := w.last(); return running })
	<-known
	before, _ := w.last()

	run(t, "DROP TABLE "+table)
	eventually(t, "a leader beyond the lost epoch", func() bool {
		epoch, running := w.last()
		return running && epoch > before
	})

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != 1 {
		t.Errorf("%d duties ran at once", w.most)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(strings.Join(warned, " "), "table "+table+" was gone, and with it all registers") {
		t.Errorf("warnings: %q", warned)
	}
}

// TestTableDroppedForGood drops the table under stores that must not create it.
func TestTableDroppedForGood(t *testing.T) {
	table := newTable(t)
	owner := open(t, Options{Table: table})
	role, url := newRole(t)
	run(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+" TO "+role)
	guest := storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: table}))
	migrated := open(t, Options{Table: table, NoCreate: true})
	if err := owner.DropEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}

	stores := map[string]*Store{"that has dropped it": owner, "with NoCreate": migrated, "of a guest": guest}
	for name, s := range stores {
		_, err := s.Get(t.Context(), "e")
		if !errors.Is(err, driver.ErrRefused) {
			t.Errorf("a store %s: %v, want ErrRefused", name, err)
		}
		if s == guest && !strings.Contains(err.Error(), "run GRANT CREATE ON SCHEMA public TO "+role) {
			t.Errorf("a store %s: %v, want what to do", name, err)
		}
	}
}
