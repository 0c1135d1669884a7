package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// This file tests leaders whose claim the store has lost, but not their heartbeat.

// lostClaimProfile is the cluster profile with a lease that outlasts a failover of the tests' servers.
func lostClaimProfile() regent.Config {
	c := regent.Cluster()
	c.LeaseDuration, c.StopTimeout = 8*time.Second, 500*time.Millisecond
	c.HeartbeatInterval, c.RenewInterval = time.Second, time.Second
	c.RenewBackoff = slices.Repeat([]time.Duration{300 * time.Millisecond}, 20)
	c.ElectionInterval, c.ElectionIntervalMax = 500*time.Millisecond, 500*time.Millisecond
	c.TakeoverDelay, c.WorkerTimeout = 100*time.Millisecond, 8*time.Second
	return c
}

// lostClaim is an election with a leader whose claim will be lost.
type lostClaim struct {
	*group
	ghost int
	term  regent.Term
}

// loseClaim makes one of two members step down and the other claim. cut makes sure that the claim will be lost, right
// after a heartbeat of that member, which will not.
func loseClaim(t *testing.T, election string, url string, cut func()) *lostClaim {
	stores := []driver.Store{open(t, url), open(t, url)}
	c := campaign(t, election, lostClaimProfile(), stores...)
	c.tolerant = true
	first, term := c.leader(20*time.Second, 0)
	c.knows(term.Epoch)

	heartbeat := driver.MemberRegister(c.all[1-first].ID)
	store := open(t, url)
	before := get(t, store, heartbeat)
	await(t, "a heartbeat", 20*time.Second, func() bool { return get(t, store, heartbeat).Rev != before.Rev })
	cut()

	if err := c.all[first].StepDown(t.Context(), election); err != nil {
		t.Fatal(err)
	}

	h := &lostClaim{group: c}
	h.ghost, h.term = c.leader(20*time.Second, term.Epoch)
	return h
}

// wantEnded waits for the end of the term whose claim was lost, while a member without any memory campaigns, and for a
// single leader.
func (h *lostClaim) wantEnded(url string) {
	h.t.Helper()
	h.join("fresh", reopened(h.t, url))
	haunts := func() bool {
		term, ok := h.all[h.ghost].Leads(h.election)
		return ok && term.Epoch == h.term.Epoch
	}

	const margin = 30 * time.Second // for a busy machine
	ended := eventually(h.cfg.LeaseDuration+margin, func() bool { return !haunts() })
	overlap, who := h.overlapped()
	h.t.Logf("two leaders at once for %v: %q", overlap.Round(time.Millisecond), who)
	if !ended {
		h.t.Fatalf("%s still leads in epoch %d, which the store has forgotten, beside %q",
			h.all[h.ghost].ID, h.term.Epoch, h.lead())
	}

	if overlap > h.cfg.LeaseDuration+margin/2 {
		h.t.Errorf("two leaders at once for %v", overlap)
	}

	await(h.t, "one leader", 60*time.Second, func() bool { return len(h.lead()) == 1 })
	await(h.t, "the member whose claim was lost says so", 20*time.Second, h.reportedEnd)
	if got := h.lead(); len(got) != 1 {
		h.t.Errorf("at the end %q lead", got)
	}
}

// reopened opens a store whose servers may still be busy with a failover.
func reopened(t testing.TB, url string) (s *Store) {
	t.Helper()
	await(t, "the store can be opened", 30*time.Second, func() (ok bool) {
		var err error
		s, err = Open(t.Context(), url, Options{})
		return err == nil
	})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reportedEnd reports whether the member whose claim was lost has reported the end of its term.
func (h *lostClaim) reportedEnd() bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	for _, e := range h.events {
		if e.who == h.ghost && e.Kind == regent.EventLostLeadership && e.Epoch == h.term.Epoch {
			return true
		}
	}
	return false
}

// becamePrimary waits for the end of a failover. A server may cut its connections when it is promoted.
func becamePrimary(t testing.TB, srv *server) {
	t.Helper()
	await(t, "the replica is the primary", 60*time.Second, func() bool {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{srv.addr()}, ForceSingleClient: true, DisableCache: true,
		})
		if err != nil {
			return false
		}
		defer c.Close()

		info, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(info, "role:master")
	})
}

func TestClaimLostInSentinelFailover(t *testing.T) {
	p := startPair(t)
	sentinel := startSentinel(t, p.primary, 500*time.Millisecond)
	await(t, "the sentinel knows the replica", 20*time.Second, func() bool {
		return strings.Contains(cli(t, sentinel, "INFO", "sentinel"), "slaves=1")
	})

	url := fmt.Sprintf("redis://%s?sentinel=mymaster", sentinel.addr())
	h := loseClaim(t, "seat", url, func() {
		p.follows(t, driver.MemberRegister("m0"))
		p.follows(t, driver.MemberRegister("m1"))
		p.cut()
	})

	p.primary.stop(syscall.SIGKILL)
	becamePrimary(t, p.replica)
	h.wantEnded(url)
}

// shard is the part of a cluster that has the slot of a name.
func shard(t testing.TB, all []*server, name string) *server {
	t.Helper()
	for _, srv := range all {
		c := raw(t, srv)
		// Any other node answers with the address of the one that has it.
		if err := c.Do(t.Context(), c.B().Arbitrary("EXISTS").Keys(name).Build()).Error(); err == nil {
			return srv
		}
	}

	t.Fatalf("no node has %q", name)
	return nil
}

// startShardReplica adds a replica of one of the nodes to a cluster.
func startShardReplica(t testing.TB, all []*server, primary *server, args ...string) *server {
	t.Helper()
	replica := startServer(t, append([]string{"--save", "", "--cluster-enabled", "yes"}, args...)...)
	cli(t, replica, "CLUSTER", "MEET", "127.0.0.1", fmt.Sprint(primary.port))
	whole(t, append([]*server{replica}, all...))
	id := cli(t, primary, "CLUSTER", "MYID")
	await(t, "the node is a replica", 20*time.Second, func() bool {
		c := raw(t, replica)
		return c.Do(t.Context(), c.B().Arbitrary("CLUSTER", "REPLICATE", id).Build()).Error() == nil
	})

	await(t, "the replica is in step", 20*time.Second, func() bool {
		return strings.Contains(cli(t, replica, "INFO", "replication"), "master_link_status:up")
	})

	return replica
}

// cutOff cuts a replica off from its primary: it cannot log in to the primary from here on.
func cutOff(t testing.TB, primary, replica *server) {
	t.Helper()
	cli(t, replica, "CONFIG", "SET", "masteruser", "nobody", "masterauth", "x")
	cli(t, primary, "CLIENT", "KILL", "TYPE", "replica")
	await(t, "the replica is cut off", 20*time.Second, func() bool {
		return strings.Contains(cli(t, replica, "INFO", "replication"), "master_link_status:down")
	})
}

func TestClaimLostInClusterFailover(t *testing.T) {
	args := []string{
		"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
	}
	all := startCluster(t, args...)
	elsewhere := map[*server]bool{shard(t, all, "{regent}:index"): true}

	for _, id := range []string{"m0", "m1", "fresh"} {
		elsewhere[shard(t, all, driver.MemberRegister(id))] = true
	}

	if len(elsewhere) == len(all) {
		t.Fatal("the members are on all nodes")
	}

	var election, neighbour string // both on a node that has nothing else
	for i := 0; neighbour == ""; i++ {
		name := fmt.Sprint("seat ", i)
		switch on := shard(t, all, name); {
		case elsewhere[on]:
		case election == "":
			election = name
		case on == shard(t, all, election):
			neighbour = name
		}
	}

	primary := shard(t, all, election)
	replica := startShardReplica(t, all, primary, args...)
	var others []string
	for _, srv := range all {
		if srv != primary {
			others = append(others, srv.addr())
		}
	}

	url := "redis://" + strings.Join(others, ",") + "?cluster=true"
	observer := subscribedElsewhere(t, url, primary)
	kept := storetest.Swap(t, observer, released(held(neighbour, "a", 1)))
	notices := observer.Subscribe(t.Context(), driver.Prefix("nothing"))
	h := loseClaim(t, election, url, func() { cutOff(t, primary, replica) })

	if took(notices) {
		t.Error("a notice while nothing has happened")
	}

	primary.stop(syscall.SIGKILL)
	becamePrimary(t, replica)

	t.Run("everybody_is_hinted_once_the_node_is_replaced", func(t *testing.T) {
		if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{}) {
			t.Errorf("%+v is notified of", got)
		}
		if got := get(t, observer, neighbour); got.Rev != kept.Rev {
			t.Errorf("%+v, want revision %q", got, kept.Rev)
		}
	})

	h.wantEnded(url)
}

// subscribedElsewhere opens a store of a cluster whose subscription is not with one of its nodes.
func subscribedElsewhere(t testing.TB, url string, node *server) *Store {
	t.Helper()
	for {
		s := open(t, url)
		<-s.Subscribe(t.Context(), driver.Prefix("nothing"))
		if strings.Fields(cli(t, node, "PUBSUB", "NUMSUB", s.channel))[1] == "0" {
			return s
		}
		_ = s.Close()
	}
}

// truncation records the length of a server's append-only file, and returns a function that truncates the file to it.
func truncation(t testing.TB, srv *server) (truncate func()) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(srv.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files %q: %v", files, err)
	}

	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}

	return func() {
		if err := os.Truncate(files[0], info.Size()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClaimLostInTruncatedFile(t *testing.T) {
	for name, beats := range map[string]int{"the_heartbeat_is_kept": 0, "the_heartbeat_is_lost_as_well": 2} {
		t.Run(name, func(t *testing.T) {
			srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
			var truncate func()
			h := loseClaim(t, "seat", srv.url(), func() { truncate = truncation(t, srv) })
			store, heartbeat := open(t, srv.url()), driver.MemberRegister(h.all[h.ghost].ID)
			for range beats { // after the second one the first has been answered
				before := get(t, store, heartbeat)
				await(t, "a heartbeat", 20*time.Second, func() bool {
					return get(t, store, heartbeat).Rev != before.Rev
				})
			}

			srv.stop(syscall.SIGKILL)
			truncate()
			if err := srv.start(); err != nil {
				t.Fatal(err)
			}

			h.wantEnded(srv.url())
		})
	}
}
