package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

// TestStoreOnACluster runs the suite on streams with three replicas. The stores have different servers.
func TestStoreOnACluster(t *testing.T) {
	all := servers(t, 3, "")
	opened := 0
	storetest.Run(t, func(t *testing.T) storetest.Open {
		stream := fmt.Sprintf("/T%d", numbers.Add(1))
		return func() (driver.Store, error) {
			opened++
			return Open(t.Context(), natstest.Address(all[opened%3:opened%3+1], stream), Options{})
		}
	})
}

// TestNewStreamOfManyProcesses opens stores of a stream that does not exist yet, all at once on all servers. One of
// them creates it, and a server refuses a second one before it can show the first.
func TestNewStreamOfManyProcesses(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	for range 10 {
		stream := fmt.Sprintf("/T%d", numbers.Add(1))
		var opened sync.WaitGroup
		for i := range 12 {
			opened.Go(func() {
				s, err := Open(t.Context(), natstest.Address(all[i%3:i%3+1], stream), Options{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		opened.Wait()
	}
}

// leaderOf waits until a stream has a leader among some servers, and returns it.
func leaderOf(t *testing.T, all []*natstest.Server) (leader *natstest.Server) {
	t.Helper()
	js := plain(t, all)
	drivertest.Eventually(t, "the stream has a leader", func() bool {
		stream, err := js.Stream(drivertest.Short(t), DefaultStream)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		i := slices.IndexFunc(all, func(s *natstest.Server) bool {
			return s.Name() == stream.CachedInfo().Cluster.Leader
		})
		if i >= 0 {
			leader = all[i]
		}
		return i >= 0
	})
	return leader
}

// others returns all servers but one.
func others(all []*natstest.Server, but *natstest.Server) []*natstest.Server {
	return slices.DeleteFunc(slices.Clone(all), func(s *natstest.Server) bool { return s == but })
}

// patient returns leases that outlast the election of a leader of a stream, which takes up to 9 s.
func patient() regent.Config {
	cfg := drivertest.Quick()
	cfg.LeaseDuration = 20 * time.Second
	cfg.WorkerTimeout = cfg.LeaseDuration
	return cfg
}

// TestClusterWithoutItsLeader kills and freezes the leader of the stream under members of Regent, one of them with a
// lease that is shorter than the election of another one.
func TestClusterWithoutItsLeader(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	addr := natstest.Address(all, "")
	c := drivertest.NewCandidates(t, election)
	for id, cfg := range map[string]regent.Config{"a": drivertest.Quick(), "b": drivertest.Quick(), "c": patient()} {
		c.Join(id, open(t, addr), cfg)
	}
	s := open(t, addr)
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	c.Leads(0)

	for what, fault := range map[string]func(*natstest.Server) (heal func() error){
		"killed": func(m *natstest.Server) func() error { m.Kill(); return m.Start },
		"frozen": func(m *natstest.Server) func() error { _ = m.Freeze(); return m.Thaw },
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

// TestKilledLeaderKeepsWrites kills the leader of the stream after each of some writes: none that was answered is lost,
// and none that was not answered is applied twice.
func TestKilledLeaderKeepsWrites(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	s := open(t, natstest.Address(all, ""))
	l := storetest.Swap(t, s, held("a", "x", 1))

	for range 2 {
		leader := leaderOf(t, all)
		l.Nonce++
		l = storetest.Swap(t, s, l)
		leader.Kill()

		next := l
		next.Nonce++
		_, err := s.Swap(drivertest.Short(t), next)
		got := drivertest.Settled(t, s, "a")
		switch {
		case err == nil && got.Nonce != next.Nonce, errors.Is(err, driver.ErrConflict),
			got.Nonce != l.Nonce && got.Nonce != next.Nonce, got.Nonce == l.Nonce && got.Rev != l.Rev:
			t.Errorf("after %+v was answered, and then %v, the register shows %+v", l, err, got)
		}
		l = got
		if err := leader.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFrozenServer freezes the server that a store is connected to. Another one is asked soon, and not only after the
// pings of the client. On a slow machine these may come first: then it is tried again.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	s := open(t, natstest.Address(all, ""))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)

	drivertest.Eventually(t, "another server is asked before the pings of the client", func() bool {
		began := time.Now()
		frozen := freezeConnected(t, s, all)
		drivertest.Zero(t, woken)
		took := time.Since(began)

		if s.conn.ConnectedServerName() == frozen.Name() {
			t.Error("the frozen server is still asked")
		}
		drivertest.Settled(t, s, "a")
		drivertest.Listens(t, s, woken)
		if err := frozen.Thaw(); err != nil {
			t.Fatal(err)
		}
		return took < 2*pingInterval
	})
}

// freezeConnected freezes the server that a store is connected to, and has one swap go unanswered.
func freezeConnected(t *testing.T, s *Store, all []*natstest.Server) (frozen *natstest.Server) {
	t.Helper()
	drivertest.Unanswered(t, s, "a", func() (thaw func() error) {
		drivertest.Eventually(t, "the store is connected", func() bool {
			name := s.conn.ConnectedServerName()
			i := slices.IndexFunc(all, func(m *natstest.Server) bool { return m.Name() == name })
			if i >= 0 {
				frozen = all[i]
			}
			return i >= 0
		})
		if err := frozen.Freeze(); err != nil {
			t.Fatal(err)
		}
		return frozen.Thaw
	})
	return frozen
}

// TestThawedReplica asks a server that has slept while others wrote. It holds a replica, and answers from it. The
// requests are there when it wakes up, and so is what the others have sent. It is tried until a read without a barrier
// was stale: no read with one ever is.
func TestThawedReplica(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	storetest.Swap(t, open(t, natstest.Address(all, "")), held("a", "x", 1))
	leader := leaderOf(t, all)
	asleep := others(all, leader)[0]
	near := open(t, natstest.Address([]*natstest.Server{leader}, ""))
	far := open(t, natstest.Address([]*natstest.Server{asleep}, ""))

	crowd := make([]driver.Record, 400)
	for i := range crowd {
		crowd[i] = held(fmt.Sprintf("e%d", i), "x", 1)
	}
	drivertest.Eventually(t, "a read without a barrier is stale", func() bool {
		if err := asleep.Freeze(); err != nil {
			t.Fatal(err)
		}
		for i, o := range near.SwapAll(t.Context(), crowd) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			crowd[i] = o.Record
		}
		l := storetest.Swap(t, near, drivertest.Settled(t, near, "a"))

		before := total(far)
		unproved := make(chan map[string]stored)
		proved := make(chan driver.Record)
		go func() {
			found := map[string]stored{}
			_ = far.readPage(drivertest.Short(t), "get", []string{"a"}, 0, found) // a later round may be answered
			unproved <- found
		}()
		go func() { proved <- drivertest.Settled(t, far, "a") }()
		drivertest.Eventually(t, "the reads were sent", func() bool { return total(far) >= before+2 })
		if err := asleep.Thaw(); err != nil {
			t.Fatal(err)
		}

		if got := <-proved; got.Rev != l.Rev {
			t.Errorf("a read that began after a write shows %s, want %s", got.Rev, l.Rev)
		}
		got, answered := (<-unproved)["a"]
		return answered && got.revision() != l.Rev
	})
}

// total returns how many requests a store has sent.
func total(s *Store) (n uint64) {
	for _, count := range s.Requests() {
		n += count
	}
	return n
}

// TestStaleAnswer asks for what no replica has yet: the answer does not count.
func TestStaleAnswer(t *testing.T) {
	s := open(t, fresh())
	storetest.Swap(t, s, held("a", "x", 1))
	n, err := s.barrier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "a read says that the replica is behind", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := s.readPage(ctx, "get", []string{"a"}, n+1, map[string]stored{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a replica that has not stored the barrier: %v, want errStale", err)
		}
		return errors.Is(err, errStale) // or the machine is slow, and nothing was answered
	})
	found := map[string]stored{}
	if err := s.readPage(t.Context(), "get", []string{"a"}, n, found); err != nil || len(found) != 1 {
		t.Errorf("a replica that has: %v, %v", found, err)
	}
}

// TestMajorityLost kills two of three servers: nothing is known of any swap, no read is answered, and nothing is
// refused for good.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	all := servers(t, 3, "")
	s := open(t, natstest.Address(all, ""))
	l := storetest.Swap(t, s, held("a", "x", 1))

	for _, m := range all[1:] {
		m.Kill()
	}
	for range 3 {
		drivertest.Unknown(t, s, l)
	}
	if got, err := s.Get(drivertest.Short(t), "a"); err == nil || errors.Is(err, driver.ErrRefused) {
		t.Errorf("a read without a majority: %+v, %v", got, err)
	}

	for _, m := range all[1:] {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	drivertest.Eventually(t, "a swap succeeds again", func() bool {
		l = drivertest.Settled(t, s, "a")
		l.Nonce++
		_, err := s.Swap(drivertest.Short(t), l)
		return err == nil
	})
}

// TestSentTwice sends a write twice, as a network may: it is applied once, and both answers say so.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.Address(servers(t, 3, ""), ""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	m := nats.NewMsg(s.addr.registers() + "a")
	m.Data = held("a", "y", 2).AppendJSON(nil)
	m.Header.Set(nats.MsgIdHdr, s.newStamp())
	m.Header.Set(headerExpected, fmt.Sprint(sequenceOf(l.Rev)))

	var acks []ack
	for range 2 {
		a, err := s.publish(t.Context(), "swap", m)
		if err != nil || a.Error != nil {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := s.judgeAck(t.Context(), l, a, sequenceOf(l.Rev)); err != nil {
			t.Errorf("the answer %+v: %v, want it to count as applied", a, err)
		}
		acks = append(acks, a)
	}
	if acks[0].Duplicate || !acks[1].Duplicate || acks[0].Sequence != acks[1].Sequence {
		t.Errorf("the answers are %+v", acks)
	}
}
