package redis

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// This file tests servers that come back without writes that they had answered.

// pair is a primary and a replica whose link can be cut.
type pair struct {
	primary, replica *server
	link             *proxy
}

func startPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{primary: startServer(t, "--save", "", "--repl-diskless-sync-delay", "0")}
	p.link = startProxy(t, p.primary.addr())
	host, port, _ := net.SplitHostPort(p.link.l.Addr().String())
	p.replica = startReplica(t, p.primary, host, port)
	return p
}

// cut keeps the replica from receiving anything from here on.
func (p *pair) cut() { p.link.swallow(true) }

// follows waits until the replica shows the register as the primary does.
func (p *pair) follows(t testing.TB, name string) {
	t.Helper()
	key := "{" + name + "}:regent"
	await(t, "the replica has "+name, 10*time.Second, func() bool {
		return cli(t, p.replica, "GET", key) == cli(t, p.primary, "GET", key)
	})
}

// promote makes the replica a primary that knows nothing of the other.
func (p *pair) promote(t testing.TB) { cli(t, p.replica, "REPLICAOF", "NO", "ONE") }

// briefOn writes a lease of 30 ms.
func briefOn(t testing.TB, s *Store, name string) driver.Record {
	t.Helper()
	l := held(name, "a", 1)
	l.Duration = 30 * time.Millisecond
	return storetest.Swap(t, s, l)
}

// renewable is a lease that is renewed before it expires, even on a slow machine.
const renewable = 3 * time.Second

// expired waits until the key of a seat is gone.
func expired(t testing.TB, srv *server, name string) {
	t.Helper()
	c := raw(t, srv)
	await(t, "the key "+name+" has expired", 10*time.Second, func() bool { return ask(t, c, "EXISTS", name) == "0" })
}

func TestExpiryAfterFailover(t *testing.T) {
	p := startPair(t)
	before := open(t, p.primary.url())
	lost := storetest.Swap(t, before, withDuration(held("lost", "a", 1), renewable))
	kept := briefOn(t, before, "kept")
	later := held("later", "a", 1)
	later = storetest.Swap(t, before, later)

	storetest.Swap(t, before, held("via", "a", 1))
	p.follows(t, "via")
	p.cut()
	lost.Nonce++
	renewed := storetest.Swap(t, before, withDuration(lost, time.Hour))
	expired(t, p.primary, "kept")

	p.promote(t)
	expired(t, p.replica, "lost")
	after := open(t, p.replica.url())

	t.Run("an_expiry_that_another_server_set_is_not_believed", func(t *testing.T) {
		for _, l := range []driver.Record{lost, kept} {
			got := get(t, after, l.Name)
			if got.Holder != l.Holder || got.Epoch != l.Epoch {
				t.Errorf("%s is held by %v", l.Name, got.Holder)
			}

			if got.Nonce == 1 {
				t.Errorf("%s shows an observer the nonce that it has shown before", l.Name)
			}

			if got.Rev == l.Rev || got.Rev != get(t, after, l.Name).Rev {
				t.Errorf("%s has revision %q, want one of its own that stays", l.Name, got.Rev)
			}
		}

		if got := get(t, before, "kept"); !got.Vacant() {
			t.Errorf("the server that set it shows %+v", got)
		}
	})

	t.Run("no_hint_tells_of_an_expiry_that_is_not_believed", func(t *testing.T) {
		ctx, cancel := contextOf(t)
		defer cancel()

		after.Subscribe(ctx, driver.Prefix(""))
		get(t, after, "kept")

		after.notifier.mu.Lock()
		defer after.notifier.mu.Unlock()

		if len(after.notifier.expiry) != 0 {
			t.Errorf("timers are set for %v", after.notifier.expiry)
		}
	})

	t.Run("what_was_read_from_another_server_cannot_be_claimed", func(t *testing.T) {
		for _, rev := range []string{kept.Rev, kept.Rev + "!", kept.Rev + "@0123456789abcdef"} {
			bid := held("kept", "b", 9)
			bid.Rev = rev
			refused(t, after, bid)
		}
		refused(t, after, renewed)
	})

	t.Run("what_was_read_from_this_server_can_be_claimed", func(t *testing.T) {
		bid := held("kept", "b", 9)
		bid.Rev = get(t, after, "kept").Rev
		bid.Duration = 30 * time.Millisecond
		bid = storetest.Swap(t, after, bid)
		if got := cli(t, p.replica, "GET", "{kept}:regent"); !strings.HasPrefix(got, bid.Rev+" ") {
			t.Errorf("the register is %q", got)
		}

		await(t, "an expiry that this server set is believed", 10*time.Second, func() bool {
			return get(t, after, "kept").Vacant()
		})
	})

	t.Run("its_holder_goes_on", func(t *testing.T) {
		next := later
		next.Nonce++
		next = storetest.Swap(t, after, next) // on the revision that it wrote
		if got := get(t, after, "later"); got.Rev != next.Rev {
			t.Errorf("it has revision %q, want %q", got.Rev, next.Rev)
		}
	})

	t.Run("an_edit_does_not_make_it_believed", func(t *testing.T) {
		l := get(t, after, "lost")
		nonce := l.Nonce
		l.Next = "c"
		l = storetest.Swap(t, after, l)
		got := get(t, after, "lost")
		if got.Vacant() || got.Next != "c" || got.Rev == l.Rev || got.Nonce != nonce {
			t.Errorf("after an edit: %+v", got)
		}

		if record := cli(t, p.replica, "GET", "{lost}:regent"); !strings.Contains(record, `"nonce":"1"`) {
			t.Errorf("the edit has replaced the holder's nonce: %s", record)
		}

		got.Nonce++
		storetest.Swap(t, after, got) // and its holder goes on from there
	})

	t.Run("a_release_is_taken", func(t *testing.T) {
		l := get(t, before, "via")
		storetest.Swap(t, after, released(l))
	})
}

func withDuration(l driver.Record, d time.Duration) driver.Record {
	l.Duration = d
	return l
}

func TestExpiryAfterFailback(t *testing.T) {
	p := startPair(t)
	s := open(t, p.primary.url())
	l := storetest.Swap(t, s, withDuration(held("seat", "a", 1), renewable))
	p.follows(t, "seat")
	p.cut()
	l.Nonce++

	storetest.Swap(t, s, withDuration(l, time.Hour))
	p.promote(t)

	// The former primary follows the new one, loses the renewal, and is promoted again: it is the same process.
	cli(t, p.primary, "REPLICAOF", "127.0.0.1", fmt.Sprint(p.replica.port))
	await(t, "the former primary has forgotten the renewal", 20*time.Second, func() bool {
		return strings.HasPrefix(cli(t, p.primary, "GET", "{seat}:regent"), l.Rev+" ")
	})

	expired(t, p.replica, "seat")
	cli(t, p.primary, "REPLICAOF", "NO", "ONE")
	if got := get(t, open(t, p.primary.url()), "seat"); got.Vacant() {
		t.Error("a server that was demoted in between believes an expiry that it set before")
	}
}

// snapshot copies the append-only files of a server that runs.
func snapshot(t testing.TB, srv *server) (restore func()) {
	t.Helper()
	from, copied := filepath.Join(srv.dir, "appendonlydir"), filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}

	return func() {
		if err := os.RemoveAll(from); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(from, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExpiryAfterRestart(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, srv.url())
	l := storetest.Swap(t, s, withDuration(held("seat", "a", 1), renewable))
	restore := snapshot(t, srv)
	l.Nonce++
	storetest.Swap(t, s, withDuration(l, time.Hour))

	srv.stop(syscall.SIGKILL)
	restore()
	if err := srv.start(); err != nil {
		t.Fatal(err)
	}

	expired(t, srv, "seat")
	if got := get(t, open(t, srv.url()), "seat"); got.Holder != l.Holder {
		t.Errorf("after a restart that lost a renewal: %+v", got)
	}
}

func TestUnstampedRegister(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	l := briefOn(t, s, "seat")
	reg := ask(t, c, "GET", "{seat}:regent")
	first, rest, _ := strings.Cut(reg, "\n")
	words := strings.Fields(first)
	if len(words) != 3 {
		t.Fatalf("the first line is %q", first)
	}

	ask(t, c, "SET", "{seat}:regent", words[0]+" "+words[1]+"\n"+rest)
	expired(t, shared, "seat")

	t.Run("an_expiry_that_nobody_vouches_for_is_not_believed", func(t *testing.T) {
		if got := get(t, s, "seat"); got.Holder != l.Holder {
			t.Errorf("it is held by %v", got.Holder)
		}
	})

	t.Run("a_user_who_may_not_ask_believes_it", func(t *testing.T) {
		ask(t, c, "ACL", "SETUSER", "blind", "on", ">p", "~*", "&*", "+@all", "-info")
		defer ask(t, c, "ACL", "DELUSER", "blind")

		blind := open(t, "redis://blind:p@"+shared.addr())
		got := get(t, blind, "seat")
		if !got.Vacant() {
			t.Errorf("it is held by %v", got.Holder)
		}

		bid := withDuration(held("seat", "b", 2), 30*time.Millisecond)
		bid.Rev = got.Rev
		bid = storetest.Swap(t, blind, bid)
		bid.Nonce++
		swapUntilRefused(t, blind, bid)
	})
}

// swapUntilRefused waits until a lease can no longer be renewed.
func swapUntilRefused(t *testing.T, s *Store, l driver.Record) {
	t.Helper()
	await(t, "it has expired", 10*time.Second, func() bool { return get(t, s, l.Name).Vacant() })
	refused(t, s, l)
}

func TestLockAfterLostRenewals(t *testing.T) {
	p := startPair(t)
	fronts := []*proxy{startProxy(t, p.primary.addr()), startProxy(t, p.primary.addr())}
	cfg := quickLock()
	cfg.LeaseDuration, cfg.WorkerTimeout = 5*time.Second, 5*time.Second
	all := campaign(t, stargate, cfg, open(t, fronts[0].url()), open(t, fronts[1].url()))
	who, term := all.leader(20*time.Second, 0)
	all.knows(term.Epoch) // the standby has read the claim

	p.follows(t, stargate)

	// Neither the standby nor the replica receives the renewals from here on.
	fronts[1-who].lead("")
	p.cut()
	expired(t, p.replica, stargate)
	if _, ok := all.all[who].Leads(stargate); !ok {
		t.Skip("this machine is too busy: the leader could not renew its lease in time")
	}

	fronts[who].lead("")
	p.promote(t)
	fronts[1-who].lead(p.replica.addr())
	promoted := time.Now()

	t.Run("nobody_leads_beside_a_holder_whose_renewals_were_lost", func(t *testing.T) {
		next, later := all.leader(30*time.Second, term.Epoch)
		if next != 1-who || later.Epoch != term.Epoch+1 {
			t.Errorf("m%d leads in epoch %d after %d", next, later.Epoch, term.Epoch)
		}
		t.Logf("%v after the failover", time.Since(promoted).Round(time.Millisecond))
	})
}
