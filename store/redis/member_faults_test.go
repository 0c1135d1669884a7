package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
)

func TestLeaderCutOff(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near := open(t, shared.url())
	cfg := quickLock()
	cfg.LeaseDuration = 9 * time.Second
	cfg.RenewInterval = 1500 * time.Millisecond
	cfg.WorkerTimeout = 9 * time.Second
	all := campaign(t, stargate, cfg, open(t, p.url()), near)
	who, term := all.leader(10*time.Second, 0)
	if who == 1 { // the one that is to be cut off must lead
		if err := all.all[1].StepDown(t.Context(), stargate); err != nil {
			t.Fatal(err)
		}
		if who, term = all.leader(10*time.Second, term.Epoch); who != 0 {
			t.Fatalf("m%d leads", who)
		}
	}

	all.knows(term.Epoch)
	p.l.Close()
	p.cut()
	began := time.Now()

	t.Run("L06_a_standby_gets_the_key_when_it_expires_and_never_both_lead", func(t *testing.T) {
		who, later := all.leader(20*time.Second, term.Epoch)
		if who != 1 || later.Epoch != term.Epoch+1 {
			t.Errorf("m%d leads in epoch %d", who, later.Epoch)
		}

		// The timer at the known expiry makes it so soon: by polling it would take up to another lease.
		if after := time.Since(began); after > cfg.LeaseDuration+3*time.Second {
			t.Errorf("after %v, with a lease of %v", after, cfg.LeaseDuration)
		}
	})
}

func TestStolenSeat(t *testing.T) {
	c := raw(t, empty(t))
	all := campaign(t, stargate, quickLock(), open(t, shared.url()))
	all.leader(10*time.Second, 0)
	ask(t, c, "SET", stargate, "a thief", "PX", "60000")

	t.Run("L12_a_renewal_that_fails_for_good_demotes_and_clears_nobody_elses_key", func(t *testing.T) {
		await(t, "it does not lead any more", 10*time.Second,
			func() bool { _, ok := all.all[0].Leads(stargate); return !ok })
		await(t, "it says so", 10*time.Second, func() bool { return all.saw(regent.EventLostLeadership) })
		all.stops[0]()
		if got := ask(t, c, "GET", stargate); got != "a thief" {
			t.Errorf("the key is now %q", got)
		}
	})
}

func TestFlushed(t *testing.T) {
	for name, cfg := range map[string]regent.Config{"own_lease": quickLock(), "member_heartbeat": quickCluster()} {
		t.Run(name, func(t *testing.T) {
			srv := empty(t)
			all := campaign(t, stargate, cfg, open(t, srv.url()), open(t, srv.url()))
			_, term := all.leader(10*time.Second, 0)
			all.knows(term.Epoch)
			cli(t, srv, "FLUSHALL")
			_, later := all.leader(20*time.Second, term.Epoch)
			all.knows(later.Epoch)
			if !all.saw(regent.EventStoreRegressed) {
				t.Error("no event tells that the store was flushed")
			}
		})
	}
}

func quickCluster() regent.Config {
	c := regent.Cluster()
	c.LeaseDuration = 2 * time.Second
	c.HeartbeatInterval = 400 * time.Millisecond
	c.RenewInterval = 400 * time.Millisecond
	c.StopTimeout = 300 * time.Millisecond
	c.ElectionInterval = 500 * time.Millisecond
	c.ElectionIntervalMax = 500 * time.Millisecond
	c.TakeoverDelay = 100 * time.Millisecond
	c.WorkerTimeout = 2 * time.Second
	return c
}

func TestRestartedUnderMembers(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	cfg := quickLock()
	cfg.LeaseDuration = 10 * time.Second
	cfg.WorkerTimeout = 10 * time.Second
	cfg.RenewBackoff = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
	all := campaign(t, stargate, cfg, open(t, srv.url()), open(t, srv.url()))
	who, term := all.leader(10*time.Second, 0)
	all.knows(term.Epoch)

	srv.stop(syscall.SIGKILL)
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}

	// It was down for less than a lease, so whoever led leads on. Another release and claim show that the epoch was
	// kept.
	await(t, "a renewal after the restart", 10*time.Second, func() bool {
		got, ok := all.all[who].Leads(stargate)
		return ok && got.Epoch == term.Epoch && pttl(t, raw(t, srv), stargate) > 9500*time.Millisecond
	})

	all.stops[who]()
	if _, later := all.leader(10*time.Second, term.Epoch); later.Epoch != term.Epoch+1 {
		t.Errorf("epoch %d after %d", later.Epoch, term.Epoch)
	}

	if all.saw(regent.EventStoreRegressed) {
		t.Error("a restart that lost nothing is said to have lost something")
	}
}

func TestSentinelFailover(t *testing.T) {
	primary := startServer(t, "--save", "", "--repl-diskless-sync-delay", "0")
	p := startProxy(t, primary.addr())
	host, port, _ := strings.Cut(strings.TrimPrefix(p.url(), "redis://"), ":")
	replica := startReplica(t, primary, host, port)
	sentinel := startSentinel(t, primary, 2*time.Second)
	await(t, "the sentinel knows the replica", 20*time.Second, func() bool {
		return strings.Contains(cli(t, sentinel, "INFO", "sentinel"), "slaves=1")
	})

	url := fmt.Sprintf("redis://%s?sentinel=mymaster", sentinel.addr())
	all := campaign(t, stargate, quickLock(), open(t, url), open(t, url))
	who, first := all.leader(10*time.Second, 0)
	all.knows(first.Epoch)
	await(t, "the replica shows the leader", 10*time.Second, func() bool {
		return strings.HasPrefix(cli(t, replica, "GET", stargate), all.all[who].ID+"/")
	})

	// From here on the replica receives nothing, so the failover loses a whole change of leader.
	p.swallow(true)
	if err := all.all[who].StepDown(t.Context(), stargate); err != nil {
		t.Fatal(err)
	}

	_, lost := all.leader(10*time.Second, first.Epoch)
	all.knows(lost.Epoch)
	primary.stop(syscall.SIGKILL)
	await(t, "the replica is the primary", 90*time.Second, func() bool {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{replica.addr()},
			ForceSingleClient: true, DisableCache: true})
		if err != nil {
			return false
		}
		defer c.Close()

		info, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(info, "role:master") // it cuts connections when it becomes one
	})

	_, later := all.leader(90*time.Second, lost.Epoch)
	all.knows(later.Epoch)
	if !all.saw(regent.EventStoreRegressed) {
		t.Error("no event tells that the failover lost something")
	}

	t.Logf("epoch %d, then %d, which was lost, then %d", first.Epoch, lost.Epoch, later.Epoch)
}
