package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func contextOf(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestSwallowedAnswers(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near, far := open(t, shared.url()), open(t, p.url())
	l := swap(t, far, held("seat", "a", 1))
	hints := far.Wake(t.Context(), "seat")
	await(t, "subscribed", 5*time.Second, func() bool { return took(hints) })

	t.Run("a_swap_is_applied_and_its_outcome_unknown", func(t *testing.T) {
		p.swallow(true)
		defer p.swallow(false)
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		next := l
		next.Nonce = 77
		began := time.Now()
		_, err := far.Swap(ctx, next)
		if err == nil || errors.Is(err, driver.ErrConflict) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Swap without an answer: %v", err)
		}
		if took := time.Since(began); took > 4500*time.Millisecond {
			t.Errorf("it returned after %v", took)
		}
		if got := get(t, near, "seat"); got.Nonce != 77 {
			t.Errorf("the register shows nonce %d", got.Nonce)
		}
	})
	t.Run("the_register_tells_once_answers_come_again", func(t *testing.T) {
		// No answer ever comes over the old connection: whoever waited for it has cut it.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := far.Get(ctx, "seat")
		if err != nil || got.Nonce != 77 {
			t.Errorf("Get: %+v, %v", got, err)
		}
		refused(t, far, l)
		l = got
	})
	t.Run("hints_come_again", func(t *testing.T) {
		await(t, "a hint after connecting again", 5*time.Second, func() bool { return took(hints) })
		l.Epoch++
		l.Nonce++
		l = swap(t, near, l)
		await(t, "a hint of a change", 5*time.Second, func() bool { return took(hints) })
	})
	t.Run("a_cancelled_call_returns_while_nothing_answers", func(t *testing.T) {
		p.swallow(true)
		defer p.swallow(false)
		p.cut() // so that the next call has to connect, and waits for a greeting
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := far.Get(ctx, "seat"); return err },
			func(ctx context.Context) error { _, err := far.Swap(ctx, l); return err },
			func(ctx context.Context) error { return listError(ctx, far) },
			func(ctx context.Context) error { return far.SwapAll(ctx, []driver.Record{l})[0].Err },
			func(ctx context.Context) error {
				s, err := Open(ctx, p.url(), Options{})
				if err == nil {
					s.Close()
				}
				return err
			},
		} {
			ctx, cancel := contextOf(t)
			stop := time.AfterFunc(50*time.Millisecond, cancel)
			began := time.Now()
			err := call(ctx)
			stop.Stop()
			if after := time.Since(began); after > 2500*time.Millisecond || err == nil {
				t.Errorf("after %v: %v", after, err)
			}
			cancel()
		}
	})
}

func listError(ctx context.Context, s *Store) error {
	for _, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCutConnections(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near, far := open(t, shared.url()), open(t, p.url())
	l := swap(t, near, held("seat", "a", 1))
	t.Run("a_read_goes_on", func(t *testing.T) {
		for range 5 {
			get(t, far, "seat")
			p.cut()
		}
	})
	t.Run("a_swap_goes_on", func(t *testing.T) {
		for range 5 {
			p.cut()
			await(t, "the connection is known to be dead", 5*time.Second, func() bool { return !far.lines.ready() })
			l.Nonce++
			l = swap(t, far, l)
		}
	})
	t.Run("a_push_goes_on", func(t *testing.T) {
		hints := far.Wake(t.Context(), "seat")
		await(t, "subscribed", 5*time.Second, func() bool { return took(hints) })
		for range 3 {
			p.cut()
			await(t, "a hint after connecting again", 5*time.Second, func() bool { return took(hints) })
			l.Epoch++
			l.Nonce++
			l = swap(t, near, l)
			await(t, "a hint of a change", 5*time.Second, func() bool { return took(hints) })
		}
	})
	t.Run("swaps_are_applied_once_or_not", func(t *testing.T) {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		done := make(chan struct{})
		defer close(done)
		go func() {
			for {
				select {
				case <-tick.C:
					p.cut()
				case <-done:
					return
				}
			}
		}()
		applied, unsure := 0, 0
		for i := range 300 {
			l.Nonce = uint64(1000 + i) // never the same twice: what was sent before may still arrive
			next, err := far.Swap(t.Context(), l)
			got := get(t, near, "seat")
			switch {
			case err == nil && got.Rev == next.Rev:
				applied++
			case err == nil:
				t.Fatalf("swap %d was applied, the register shows %d", l.Nonce, got.Nonce)
			case errors.Is(err, driver.ErrConflict) && got.Nonce == l.Nonce:
				t.Fatalf("swap %d was refused, and applied", l.Nonce)
			default:
				unsure++
			}
			l = got
		}
		t.Logf("%d applied, %d unsure", applied, unsure)
	})
}

func TestRestart(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, srv.url())
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("warnings of a server that keeps everything: %q", w)
	}
	own, via := held("own", "a", 1), held("via", "a", 1)
	own.Epoch, own.Data, via.Via = 41, []byte("checkpoint"), driver.MemberRegister("a")
	own = swap(t, s, own)
	via = swap(t, s, via)
	brief := held("brief", "a", 1)
	brief.Duration = 20 * time.Millisecond
	swap(t, s, brief)
	hints := s.Wake(t.Context(), "")
	await(t, "subscribed", 5*time.Second, func() bool { return took(hints) })

	srv.stop(syscall.SIGKILL)
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, hints); !reflect.DeepEqual(got, driver.Record{}) {
		t.Errorf("after the restart %+v is hinted at", got)
	}
	if got := get(t, s, "own"); got.Rev == own.Rev || got.Nonce != own.Nonce || got.Holder != own.Holder || string(got.Data) != "checkpoint" {
		t.Errorf("own: %+v, want %+v", got, own)
	}
	if got := get(t, s, "via"); got.Rev != via.Rev {
		t.Errorf("via: %+v, want %+v", got, via)
	}
	// It may have been renewed, and the server have forgotten that.
	if got := get(t, s, "brief"); got.Holder != brief.Holder || got.Epoch != brief.Epoch {
		t.Errorf("brief: %+v", got)
	}
	if left := pttl(t, raw(t, srv), "own"); left <= 0 || left > own.Duration {
		t.Errorf("own expires in %v", left)
	}
	own.Nonce++
	swap(t, s, own)
	if got := names(t, s, ""); len(got) != 3 {
		t.Errorf("List yields %q", got)
	}
}

func TestRevisionsAfterLoss(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	first := swap(t, s, held("seat", "a", 1))
	lost := first
	lost.Nonce++
	backup := ask(t, c, "GET", "{seat}:regent")
	lost = swap(t, s, lost)
	// The server comes back as it was before.
	ask(t, c, "SET", "{seat}:regent", backup)
	other := first
	other.Nonce = lost.Nonce // even the same nonce
	other = swap(t, s, other)
	if other.Rev == lost.Rev {
		t.Errorf("revision %q was used twice", lost.Rev)
	}
	refused(t, s, lost)
	empty(t)
	refused(t, s, other)
	if again := swap(t, s, held("seat", "a", 1)); again.Rev == first.Rev {
		t.Errorf("revision %q was used twice", first.Rev)
	}
}

// startSentinel starts a sentinel that watches a primary, and gives it up when it has been silent for so long.
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
	l := swap(t, open(t, primary.url()+"?replicas=1&replicaTimeout=20s"), held("seat", "a", 1))
	other := swap(t, open(t, primary.url()+"?replicas=1&replicaTimeout=20s"), held("confirmed", "a", 1))
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
		demoted := swap(t, plain, held("demoted", "a", 1))
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

func startCluster(t testing.TB, args ...string) []*server {
	var all []*server
	create := []string{"--cluster", "create"}
	for range 3 {
		srv := startServer(t, append([]string{"--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, args...)...)
		all, create = append(all, srv), append(create, srv.addr())
	}
	out, err := exec.Command("redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %q: %v: %s", create, err, out)
	}
	whole(t, all)
	return all
}

// whole waits until all nodes of a cluster know each other.
func whole(t testing.TB, all []*server) {
	t.Helper()
	for _, srv := range all {
		await(t, "the cluster is whole", 20*time.Second, func() bool {
			info := cli(t, srv, "CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(all)))
		})
	}
}

func TestCluster(t *testing.T) {
	all := startCluster(t, "--cluster-require-full-coverage", "no")
	url := "redis://" + all[0].addr() + "," + all[1].addr() + "?cluster=true"
	flush := func(t testing.TB) {
		for _, srv := range all {
			cli(t, srv, "FLUSHALL")
		}
	}
	suite(t, flush, url)
	t.Run("registers_are_on_all_nodes", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		for i := range 30 {
			swap(t, s, held(fmt.Sprint("seat ", i), "a", 1))
		}
		for _, srv := range all {
			if n := cli(t, srv, "DBSIZE"); n == "0" {
				t.Errorf("%s has no keys", srv.addr())
			}
		}
		if w := s.Warnings(); len(w) != 3 || !strings.Contains(w[0], "keeps nothing on disk") {
			t.Errorf("warnings: %q", w)
		}
	})
	t.Run("a_refresh_reaches_all_nodes", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		ls := bulky(t, s, 100)
		changed := ls[7]
		changed.Nonce++
		changed = swap(t, s, changed)
		name := ls[9].Name
		cli(t, shard(t, all, name), "SET", "{"+name+"}:regent", "my notes")
		for i, o := range s.Refresh(t.Context(), ls) {
			switch {
			case i == 9:
				if o.Err == nil {
					t.Errorf("an unreadable register is shown as %+v", o.Record)
				}
			case i == 7 && o.Record.Rev == changed.Rev:
			case o.Err != nil || o.Record.Rev != ls[i].Rev:
				t.Errorf("%s: %+v, %v", ls[i].Name, o.Record, o.Err)
			}
		}
		if good, bad := listed(t, s); len(good) != 99 || bad[name] == nil {
			t.Errorf("a list shows %d registers, and the errors %v", len(good), bad)
		}
	})
	t.Run("a_node_of_a_cluster_must_be_named_as_one", func(t *testing.T) {
		if s, err := Open(t.Context(), all[0].url(), Options{}); err == nil || !strings.Contains(err.Error(), "cluster=true") {
			t.Errorf("Open: %v, %v", s, err)
		}
	})
	t.Run("a_fence_is_in_the_slot_of_the_first_key", func(t *testing.T) {
		s := open(t, url)
		for _, key := range []string{"plain", "{tag}:a", "a{b}c"} {
			fenced(t, s.client, 5, key)
			stale(t, s.client, 4, 5, key)
		}
		if _, err := Fence(t.Context(), s.client, regent.Term{Election: "e", Epoch: 1}, "return 1", []string{"a}b"}, nil); err == nil || !strings.Contains(err.Error(), "hash tag") {
			t.Errorf("a key that has no slot of its own: %v", err)
		}
	})
	t.Run("registers_of_a_lost_node_have_errors_of_their_own", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		ls := bulky(t, s, 100)
		var lost *server
		for _, l := range ls {
			if lost = shard(t, all, l.Name); lost != shard(t, all, "{regent}:index") {
				break
			}
		}
		away := map[string]bool{}
		for _, l := range ls {
			away[l.Name] = shard(t, all, l.Name) == lost
		}
		lost.stop(syscall.SIGKILL)
		good, bad := listed(t, s)
		for i, o := range s.Refresh(t.Context(), ls) {
			name := ls[i].Name
			if _, shown := good[name]; shown == away[name] || (bad[name] != nil) != away[name] || (o.Err != nil) != away[name] {
				t.Errorf("%s on a lost node: %t; List: %t, %v; Refresh: %v", name, away[name], shown, bad[name], o.Err)
			}
		}
	})
}
