package etcd

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// leaderOf returns the leader of a cluster.
func leaderOf(t *testing.T, all []*etcdtest.Member) (leader *etcdtest.Member) {
	t.Helper()
	client := plain(t, all...)
	drivertest.Eventually(t, "the cluster has a leader", func() bool {
		for _, m := range all {
			status, err := client.Status(drivertest.Short(t), m.Addr())
			if err == nil && status.Leader == status.Header.MemberId {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// others returns all members but one.
func others(all []*etcdtest.Member, but *etcdtest.Member) []*etcdtest.Member {
	return slices.DeleteFunc(slices.Clone(all), func(m *etcdtest.Member) bool { return m == but })
}

// asked returns the member that a store asks.
func asked(s *Store, all []*etcdtest.Member) *etcdtest.Member {
	at, _ := s.current()
	i := slices.IndexFunc(all, func(m *etcdtest.Member) bool { return m.Addr() == s.addr.endpoints[at] })
	return all[i]
}

// TestClusterWithoutItsLeader kills and freezes the leader of three members under Regent's own.
func TestClusterWithoutItsLeader(t *testing.T) {
	t.Parallel()
	all := cluster(t, 3)
	addr := etcdtest.Address(all, "")
	c := drivertest.NewCandidates(t, election)
	for _, id := range []string{"a", "b"} {
		c.Join(id, open(t, addr), drivertest.Quick())
	}
	s := open(t, addr)
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	c.Leads(0)

	for what, fault := range map[string]func(*etcdtest.Member) (heal func() error){
		"killed": func(m *etcdtest.Member) func() error { m.Kill(); return m.Start },
		"frozen": func(m *etcdtest.Member) func() error { _ = m.Freeze(); return m.Thaw },
	} {
		leader := leaderOf(t, all)
		heal := fault(leader)
		leaderOf(t, others(all, leader))
		c.Leads(0)
		drivertest.Listens(t, s, woken)
		if err := heal(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestFrozenMember freezes the member that a store asks. One request goes unanswered, the next ones do not. The watch
// begins anew because another member is asked. On a slow machine its ping may come first: then it is tried again.
func TestFrozenMember(t *testing.T) {
	t.Parallel()
	all := cluster(t, 3)
	s := open(t, etcdtest.Address(all, ""))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)

	drivertest.Eventually(t, "the watch begins anew before its ping", func() bool {
		began := time.Now()
		frozen := freezeAsked(t, s, all)
		leaderOf(t, others(all, frozen))

		drivertest.Settled(t, s, "a")
		if asked(s, all) == frozen {
			t.Error("the frozen member is still asked")
		}
		drivertest.Zero(t, woken)
		took := time.Since(began)

		drivertest.Listens(t, s, woken)
		if err := frozen.Thaw(); err != nil {
			t.Fatal(err)
		}
		return took < pingInterval*3/4
	})
}

// freezeAsked freezes the member that a store asks, and has one swap go unanswered.
func freezeAsked(t *testing.T, s *Store, all []*etcdtest.Member) (frozen *etcdtest.Member) {
	t.Helper()
	drivertest.Unanswered(t, s, "a", func() (thaw func() error) {
		frozen = asked(s, all)
		if err := frozen.Freeze(); err != nil {
			t.Fatal(err)
		}
		return frozen.Thaw
	})
	return frozen
}

// TestMajorityLost kills two of three members: nothing is known of any swap, and nothing is refused for good.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	all := cluster(t, 3)
	s := open(t, etcdtest.Address(all, ""))
	alone := open(t, etcdtest.Address(all[:1], "")) // asks the member that is left
	l := storetest.Swap(t, s, held("a", "x", 1))

	for _, m := range all[1:] {
		m.Kill()
	}
	for range 3 {
		drivertest.Unknown(t, s, l)
	}
	drivertest.Eventually(t, "a read without a majority fails at once", func() bool {
		_, err := alone.Get(drivertest.Short(t), "a")
		if err == nil {
			t.Fatal("a read without a majority was answered: it may be stale")
		}
		return errors.Is(err, rpctypes.ErrNoLeader)
	})

	for _, m := range all[1:] {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	l = drivertest.Settled(t, s, "a")
	l.Nonce++
	drivertest.Eventually(t, "a swap succeeds again", func() bool {
		_, err := s.Swap(drivertest.Short(t), l)
		if err != nil {
			l = drivertest.Settled(t, s, "a")
		}
		return err == nil
	})
}
