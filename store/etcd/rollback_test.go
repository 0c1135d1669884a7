package etcd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func newContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// snapshot saves the cluster of one member, and returns a function that restores it.
func snapshot(t *testing.T, m *etcdtest.Member) (restore func()) {
	t.Helper()
	r, err := plain(t, m).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, r); err != nil {
		t.Fatal(err)
	}

	return func() {
		t.Helper()
		m.Kill()
		if err := lab.Restore(m, path); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRevisionsAfterARollback brings a register to the mod_revision that it had before a snapshot was restored, with
// another record. What was read before must not fit.
func TestRevisionsAfterARollback(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1)
	addr := etcdtest.Address(all, "")
	s, other := open(t, addr), open(t, addr)
	storetest.Swap(t, s, held("a", "x", 1))
	restore := snapshot(t, all[0])
	lost := held("a", "lost", 2)
	lost.Rev = drivertest.Settled(t, s, "a").Rev
	lost = storetest.Swap(t, s, lost)

	for again := range 2 { // gone back, and gone back once more
		restore()
		drivertest.Settled(t, s, "a")
		l := drivertest.Settled(t, other, "a")
		l.Nonce = 99
		l = storetest.Swap(t, other, l)
		mod, _, _ := strings.Cut(l.Rev, "/")
		if !strings.HasPrefix(lost.Rev, mod+"/") || l.Rev == lost.Rev {
			t.Fatalf("revision %s after the rollback, %s before: the test wants the same mod_revision", l.Rev, lost.Rev)
		}

		if o := s.Refresh(drivertest.Short(t), []driver.Record{lost})[0]; o.Err != nil || o.Record.Rev != l.Rev {
			t.Errorf("time %d: Refresh shows %+v, %v, want revision %s", again, o.Record, o.Err, l.Rev)
		}
		if _, err := s.Swap(drivertest.Short(t), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a swap from before the rollback: %v, want ErrConflict", again, err)
		}
		if err := s.Remove(drivertest.Short(t), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a removal from before the rollback: %v, want ErrConflict", again, err)
		}
	}
}

// TestMembersAfterARollback restores a snapshot under members that remember more than it shows. They say so, wait, and
// lead beyond every epoch that they have seen.
func TestMembersAfterARollback(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1)
	addr := etcdtest.Address(all, "")
	c := drivertest.NewCandidates(t, election)
	m := c.Join("a", open(t, addr), drivertest.Quick())
	_, epoch := c.Leads(0)
	restore := snapshot(t, all[0])
	c.GoBack(m, epoch, restore)
}

// TestPrefixDeleted deletes all keys under two members, and then the disk of the server. They say so, wait, and lead
// beyond every epoch that they have seen.
func TestPrefixDeleted(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1)
	addr := etcdtest.Address(all, "")
	c := drivertest.NewCandidates(t, election)
	c.Join("a", open(t, addr), drivertest.Quick())
	_, epoch := c.Leads(0)
	c.Join("b", open(t, addr), drivertest.Quick())
	drivertest.Eventually(t, "the standby knows the leader", func() bool {
		return c.Happened(regent.EventLeaderChanged) > 0
	})

	client := plain(t, all...)
	for name, lose := range map[string]func() error{
		"the keys": func() error {
			_, err := client.Delete(t.Context(), DefaultPrefix, clientv3.WithPrefix())
			return err
		},
		"the disk": func() error {
			etcdtest.Stop(all)
			return errors.Join(os.RemoveAll(all[0].Data()), all[0].Start())
		},
	} {
		before := c.Happened(regent.EventStoreRegressed)
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		drivertest.Eventually(t, "somebody says that "+name+" are gone", func() bool {
			return c.Happened(regent.EventStoreRegressed) > before
		})
		_, epoch = c.Leads(epoch)
	}
}
