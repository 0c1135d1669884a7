package redis

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// subscribers returns how many connections have subscribed to a channel.
func subscribers(t testing.TB, srv *server, channel string) int {
	t.Helper()
	fields := strings.Fields(cli(t, srv, "PUBSUB", "NUMSUB", channel))
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		t.Fatalf("PUBSUB NUMSUB %s: %q", channel, fields)
	}
	return n
}

func TestFollow(t *testing.T) {
	srv := empty(t)

	t.Run("a_name_is_a_channel_of_its_own", func(t *testing.T) {
		s := open(t, srv.url()+"?prefix=own:")
		to := driver.Names("seat {50%}")
		s.Subscribe(t.Context(), to)
		own := s.channelOf(driver.Topic{Name: "seat {50%}"})
		if want := "regent:wake:0:own:{own:seat %7B50%25%7D}"; own != want {
			t.Errorf("the channel is %s, want %s", own, want)
		}

		await(t, "subscribed", 5*time.Second, func() bool { return subscribers(t, srv, own) == 1 })
		if n := subscribers(t, srv, s.channel); n != 0 {
			t.Errorf("the shared channel has %d subscribers", n)
		}

		to.Remove("seat {50%}")
		await(t, "unsubscribed", 5*time.Second, func() bool { return subscribers(t, srv, own) == 0 })
	})

	t.Run("a_register_that_is_not_followed_costs_nothing", func(t *testing.T) {
		p := startProxy(t, srv.addr())
		a, b := open(t, srv.url()), open(t, p.url())
		notices := b.Subscribe(t.Context(), driver.Names("mine"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		await(t, "the connection for single swaps", 5*time.Second, func() bool { return b.direct.conn.Load() != nil })
		before := p.answered.Load()
		for i := range 50 {
			l := storetest.Swap(t, a, held(fmt.Sprint("other ", i), "a", 1))
			storetest.Swap(t, a, released(l))
		}

		storetest.Swap(t, a, held("mine", "a", 1)) // which comes after whatever was sent before
		if got := next(t, notices); got.Name != "mine" {
			t.Errorf("notified of %+v", got)
		}
		if bytes := p.answered.Load() - before; bytes > 200 {
			t.Errorf("the server has sent %d bytes to somebody who follows none of 100 changes", bytes)
		}
	})

	t.Run("a_prefix_of_members_hears_of_no_election", func(t *testing.T) {
		a, b := open(t, srv.url()), open(t, srv.url())
		notices := b.Subscribe(t.Context(), driver.Prefix(driver.MemberPrefix))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		if n := subscribers(t, srv, b.channel); n != 0 {
			t.Errorf("the channel of all registers has %d subscribers", n)
		}

		storetest.Swap(t, a, held(driver.MemberRegister("x"), "x", 1))
		if got := next(t, notices); got.Name != driver.MemberRegister("x") {
			t.Errorf("notified of %+v", got)
		}
	})

	t.Run("many_names_are_the_shared_channel_and_few_are_not", func(t *testing.T) {
		testSwitch(t, []*server{srv}, open(t, srv.url()), open(t, srv.url()))
	})
}

// testSwitch follows more registers than have channels of their own, and then fewer, while all of them change: a
// follower that reads what it is notified of misses no change.
func testSwitch(t *testing.T, all []*server, a, b *Store) {
	const many = driver.MaxTopics + 20
	var names []string
	records := map[string]driver.Record{}
	for i := range many {
		name := fmt.Sprintf("switch %d", i)
		names = append(names, name)
		records[name] = storetest.Swap(t, a, held(name, "a", 1))
	}

	to := driver.Names(names[0])
	notices := b.Subscribe(t.Context(), to)
	await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
	shared := func(want int) func() bool {
		return func() bool {
			n := 0
			for _, srv := range all {
				n += subscribers(t, srv, b.channel)
			}
			return n == want
		}
	}

	for round := range 3 {
		to.Add(names[1:]...)
		changeAll(t, a, records)
		wantNews(t, b, notices, records)
		await(t, "the shared channel", 5*time.Second, shared(1))
		changeAll(t, a, records)
		wantNews(t, b, notices, records)

		to.Remove(names[10:]...)
		few := map[string]driver.Record{}
		for _, name := range names[:10] {
			few[name] = records[name]
		}

		changeAll(t, a, few)
		wantNews(t, b, notices, few)
		await(t, fmt.Sprint("channels of their own, round ", round), 5*time.Second, shared(0))
		changeAll(t, a, few)
		wantNews(t, b, notices, few)
		for name, l := range few {
			records[name] = l
		}
	}
}

// changeAll hands every register over.
func changeAll(t *testing.T, s *Store, records map[string]driver.Record) {
	t.Helper()
	for name, l := range records {
		l.Epoch++
		l.Nonce++
		records[name] = storetest.Swap(t, s, l)
	}
}

// wantNews takes notifications, and reads what they name, until every register was read as it is now.
func wantNews(t *testing.T, s *Store, notices <-chan driver.Record, records map[string]driver.Record) {
	t.Helper()
	left := map[string]bool{}
	for name := range records {
		left[name] = true
	}

	for len(left) > 0 {
		l := next(t, notices)
		for name := range left {
			if (l.Name == "" || l.Name == name) && get(t, s, name).Epoch == records[name].Epoch {
				delete(left, name)
			}
		}
	}
}

// connectedApart reports whether the store has a connection for notifications.
func connectedApart(s *Store) bool {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for c := range s.conns.all {
		if c.apart && c.state.Load() == greeted {
			return true
		}
	}
	return false
}

func TestFollowOverFaults(t *testing.T) {
	p := startProxy(t, empty(t).addr())
	near, far := open(t, shared.url()), open(t, p.url())
	far.notifier.proofs = 100 * time.Millisecond
	l := storetest.Swap(t, near, held("seat", "a", 1))
	change := func() {
		l.Epoch++
		l.Nonce++
		l = storetest.Swap(t, near, l)
	}

	notices := far.Subscribe(t.Context(), driver.Names("seat"))
	await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
	own := far.channelOf(driver.Topic{Name: "seat"})
	heard := func(what string) {
		t.Helper()
		await(t, what, 15*time.Second, func() bool { return took(notices) })
		await(t, "subscribed again", 15*time.Second, func() bool { return subscribers(t, shared, own) == 1 })
		took(notices)
		change()
		if got := next(t, notices); got.Name != "seat" && got.Name != "" {
			t.Errorf("%s: notified of %+v", what, got)
		}
	}

	t.Run("a_cut_connection_is_opened_again_and_the_register_read", func(t *testing.T) {
		p.cut()
		change() // nobody hears of this one
		heard("a notice after another connection")
	})

	t.Run("subscriptions_that_the_server_drops_are_found_and_made_again", func(t *testing.T) {
		p.swallow(true)
		p.inject("UNSUBSCRIBE " + strconv.Quote(own))
		await(t, "dropped", 5*time.Second, func() bool { return subscribers(t, shared, own) == 0 })
		change() // nobody hears of this one
		p.swallow(false)
		heard("a notice after the subscription was found missing")
	})

	t.Run("a_server_that_hangs_is_waited_for", func(t *testing.T) {
		if err := shared.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		await(t, "the connection is given up", 15*time.Second, func() bool { return !connectedApart(far) })
		if err := shared.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		heard("a notice after the server answers again")
	})

	t.Run("a_killed_connection_is_opened_again", func(t *testing.T) {
		cli(t, shared, "CLIENT", "KILL", "TYPE", "pubsub")
		heard("a notice after the connection was killed")
	})

	t.Run("nothing_is_left_of_a_store_that_is_closed_while_nothing_answers", func(t *testing.T) {
		p.swallow(true)
		defer p.swallow(false)

		began := time.Now()
		if err := far.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}
