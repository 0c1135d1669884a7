package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// startSentinel starts a sentinel that monitors a primary, and fails over when it has been silent for so long.
func startSentinel(t testing.TB, primary *server, downAfter time.Duration) *server {
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 1\nsentinel down-after-milliseconds mymaster %d\n"+
		"sentinel failover-timeout mymaster 2000\n", primary.port, downAfter.Milliseconds())

	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	s := &server{dir: dir, port: freePort(), conf: conf, args: []string{"--sentinel"}}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

// startReplica starts one that replicates from addr, and waits for it.
func startReplica(t testing.TB, primary *server, host, port string) *server {
	replica := startServer(t, "--save", "", "--replicaof", host, port)
	await(t, "the replica is in step", 20*time.Second, func() bool {
		return strings.Contains(cli(t, replica, "INFO", "replication"), "master_link_status:up") &&
			strings.Contains(cli(t, primary, "INFO", "replication"), "state=online")
	})
	return replica
}

func TestReplicas(t *testing.T) {
	primary := startServer(t, "--save", "", "--repl-diskless-sync-delay", "0")
	p := startProxy(t, primary.addr())
	host, port, _ := strings.Cut(strings.TrimPrefix(p.url(), "redis://"), ":")
	replica := startReplica(t, primary, host, port)

	t.Run("a_replica_is_refused", func(t *testing.T) {
		s, err := Open(t.Context(), replica.url(), Options{})
		if err == nil {
			s.Close()
			t.Fatal("was opened")
		}
		if !strings.Contains(err.Error(), "replica") {
			t.Error(err)
		}
	})

	// A replica that has just come up may take its time for the first confirmation.
	l := storetest.Swap(t, open(t, primary.url()+"?replicas=1&replicaTimeout=20s"), held("seat", "a", 1))
	other := storetest.Swap(t, open(t, primary.url()+"?replicas=1&replicaTimeout=20s"), held("confirmed", "a", 1))
	s := open(t, primary.url()+"?replicas=1&replicaTimeout=300ms")

	t.Run("a_swap_waits_for_its_replicas", func(t *testing.T) {
		if got := cli(t, replica, "GET", "seat"); got != l.Holder.String() {
			t.Errorf("the replica shows %q", got)
		}
	})

	t.Run("what_is_not_confirmed_is_unknown_and_not_shown", func(t *testing.T) {
		p.swallow(true)
		next := l
		next.Nonce++
		if _, err := s.Swap(t.Context(), next); !errors.Is(err, errUnconfirmed) || errors.Is(err, driver.ErrConflict) {
			t.Errorf("Swap without replicas: %v", err)
		}

		if got, err := s.Get(t.Context(), "seat"); !errors.Is(err, errUnconfirmed) {
			t.Errorf("Get without replicas: %+v, %v", got, err)
		}

		out := s.Refresh(t.Context(), []driver.Record{{Name: "seat"}, {Name: "never written"}, other})
		if !errors.Is(out[0].Err, errUnconfirmed) || !errors.Is(out[1].Err, driver.ErrNotFound) || out[2].Err != nil {
			t.Errorf("Refresh without replicas: %+v", out)
		}

		p.swallow(false)
		p.cut() // the replica connects again
		await(t, "the record is shown once it is confirmed", 20*time.Second, func() bool {
			got, err := s.Get(t.Context(), "seat")
			return err == nil && got.Nonce == next.Nonce
		})
	})

	t.Run("the_suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Open {
			cli(t, primary, "FLUSHALL")
			return func() (driver.Store, error) {
				return Open(t.Context(), primary.url(), Options{Replicas: 1, ReplicaTimeout: 20 * time.Second})
			}
		})
	})

	t.Run("a_store_on_a_demoted_primary_shows_nothing_old", func(t *testing.T) {
		plain := open(t, primary.url())
		demoted := storetest.Swap(t, plain, held("demoted", "a", 1))
		cli(t, replica, "REPLICAOF", "NO", "ONE")
		cli(t, primary, "REPLICAOF", "127.0.0.1", fmt.Sprint(replica.port))
		if l, err := plain.Get(t.Context(), "demoted"); err == nil {
			t.Errorf("Get on a demoted primary: %+v", l)
		}

		if o := plain.Refresh(t.Context(), []driver.Record{demoted})[0]; o.Err == nil {
			t.Errorf("Refresh on a demoted primary: %+v", o.Record)
		}

		n := 0
		for l, err := range plain.List(t.Context(), "") {
			if n++; err == nil || l.Name != "" || n > 1 {
				t.Errorf("List on a demoted primary: %+v, %v", l, err)
			}
		}
	})
}
