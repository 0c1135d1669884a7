package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// bulky writes n registers with a record of about 5 KB each, held through a member's heartbeat.
func bulky(t testing.TB, s *Store, n int) []driver.Record {
	t.Helper()
	ls := make([]driver.Record, n)
	for i := range ls {
		ls[i] = held(fmt.Sprintf("bulky/%05d", i), "a", uint64(i+1))
		ls[i].Via = driver.MemberRegister("a")
		ls[i].Data = []byte(strings.Repeat(strconv.Itoa(i%10), 3700))
	}

	for i, o := range s.SwapAll(t.Context(), ls) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		ls[i] = o.Record
	}

	return ls
}

// counter is a way to a server that counts what comes back from it.
type counter struct {
	l     net.Listener
	bytes atomic.Int64
}

func startCounter(t testing.TB, target string) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	c := &counter{l: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}

			srv, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				return
			}

			go func() {
				_, _ = io.Copy(srv, client)
				srv.Close()
			}()

			go func() {
				_, _ = io.Copy(client, io.TeeReader(srv, c))
				client.Close()
			}()
		}
	}()

	return c
}

func (c *counter) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return len(b), nil
}

func (c *counter) url() string { return "redis://" + c.l.Addr().String() }

func TestRefresh(t *testing.T) {
	url := empty(t).url()
	raw := raw(t, shared)
	s := open(t, url)
	refresh := func(t *testing.T, known ...driver.Record) []driver.Outcome {
		t.Helper()
		out := s.Refresh(t.Context(), known)
		if len(out) != len(known) {
			t.Fatalf("%d outcomes of %d registers", len(out), len(known))
		}
		return out
	}

	shows := func(t *testing.T, known driver.Record) {
		t.Helper()
		want, err := s.Get(t.Context(), known.Name)
		got := refresh(t, known)[0]
		if !reflect.DeepEqual(got.Record, want) || fmt.Sprint(got.Err) != fmt.Sprint(err) {
			t.Errorf("Refresh of %q at %q: %+v, %v; Get: %+v, %v", known.Name, known.Rev, got.Record, got.Err, want,
				err)
		}
	}

	t.Run("nothing_has_no_outcome", func(t *testing.T) { refresh(t) })

	t.Run("an_unchanged_register_costs_no_transfer_of_its_record", func(t *testing.T) {
		c := startCounter(t, shared.addr())
		far := open(t, c.url())
		ls := bulky(t, s, 2500) // more than two pages
		get(t, far, ls[0].Name) // from here on the server knows the script
		before, calls := c.bytes.Load(), requests(t, shared)["evalsha"]

		for i, o := range far.Refresh(t.Context(), ls) {
			if o.Err != nil || !reflect.DeepEqual(o.Record, ls[i]) {
				t.Fatalf("%+v, %v; want %+v", o.Record, o.Err, ls[i])
			}
		}

		if got := c.bytes.Load() - before; got > 2500*16 {
			t.Errorf("%d bytes came back for 2,500 unchanged registers", got)
		}

		if got := requests(t, shared)["evalsha"] - calls; got != (2*1024/64)+(2500-2048+63)/64 {
			t.Errorf("%d requests for 2,500 unchanged registers", got)
		}
	})

	t.Run("a_changed_register_is_shown_as_it_is", func(t *testing.T) {
		l := storetest.Swap(t, s, held("changed", "a", 1))
		next := l
		next.Nonce++
		next.Data = []byte("new")
		storetest.Swap(t, s, next)
		shows(t, l)
		shows(t, driver.Record{Name: "changed"})
		shows(t, driver.Record{Name: "never written"})
		shows(t, driver.Record{Name: "never written", Rev: l.Rev})
	})

	t.Run("an_expired_seat_has_changed", func(t *testing.T) {
		l := held("brief", "a", 1)
		l.Duration = 30 * time.Millisecond
		l = storetest.Swap(t, s, l)
		await(t, "it has expired", 10*time.Second, func() bool { return refresh(t, l)[0].Record.Vacant() })
		shows(t, l)
		shows(t, get(t, s, l.Name))
	})

	t.Run("a_seat_in_other_hands_has_changed", func(t *testing.T) {
		l := storetest.Swap(t, s, held("stolen", "a", 1))
		ask(t, raw, "SET", "stolen", "a thief")
		shows(t, l)
		shows(t, get(t, s, l.Name))
		if got := refresh(t, l)[0].Record.Holder; got.ID != "a thief" {
			t.Errorf("it is held by %v", got)
		}
	})

	t.Run("an_unreadable_register_is_an_error_of_its_own", func(t *testing.T) {
		good := storetest.Swap(t, s, held("good", "a", 1))
		ask(t, raw, "LPUSH", "{wrong type}:regent", "x")
		ask(t, raw, "SET", "{garbage}:regent", "my notes")
		ask(t, raw, "SET", "{corrupt}:regent", "1.x.1 \na/b\n1\n{")
		out := refresh(t, good, driver.Record{Name: "wrong type"}, driver.Record{Name: "garbage", Rev: "1"},
			driver.Record{Name: "corrupt"}, good)

		for i, bad := range []bool{false, true, true, true, false} {
			if (out[i].Err != nil) != bad || errors.Is(out[i].Err, driver.ErrNotFound) {
				t.Errorf("outcome %d: %+v, %v", i, out[i].Record, out[i].Err)
			}
		}

		ask(t, raw, "DEL", "{wrong type}:regent", "{garbage}:regent", "{corrupt}:regent")
	})

	t.Run("a_server_that_has_forgotten_the_script_is_sent_it_again", func(t *testing.T) {
		l := storetest.Swap(t, s, held("forgotten", "a", 1))
		ask(t, raw, "SCRIPT", "FLUSH")
		for _, o := range refresh(t, l, l, l) {
			if o.Err != nil {
				t.Error(o.Err)
			}
		}
	})

	t.Run("a_lost_connection_is_replaced", func(t *testing.T) {
		p := startProxy(t, shared.addr())
		far := open(t, p.url())
		l := storetest.Swap(t, s, held("cut", "a", 1))
		for range 5 {
			p.cut()
			if o := far.Refresh(t.Context(), []driver.Record{l, l})[1]; o.Err != nil {
				t.Error(o.Err)
			}
		}
	})

	t.Run("a_closed_store_says_so", func(t *testing.T) {
		closed, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		if o := closed.Refresh(t.Context(), []driver.Record{{Name: "good"}})[0]; !errors.Is(o.Err, driver.ErrClosed) {
			t.Error(o.Err)
		}
	})
}

// listed lists registers, by name, and the errors of those that have one.
func listed(t testing.TB, s *Store) (map[string]driver.Record, map[string]error) {
	t.Helper()
	good, bad := map[string]driver.Record{}, map[string]error{}
	for l, err := range s.List(t.Context(), "") {
		switch {
		case err == nil:
			good[l.Name] = l
		case l.Name != "":
			bad[l.Name] = err
		default:
			t.Fatal(err)
		}
	}

	return good, bad
}

func TestUnreadableRegister(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		storetest.Swap(t, s, held(name, "a", 1))
	}

	ask(t, c, "DEL", "{b}:regent")
	ask(t, c, "LPUSH", "{b}:regent", "x")
	ask(t, c, "SET", "{d}:regent", "my notes")

	t.Run("a_list_shows_all_others_and_names_it", func(t *testing.T) {
		good, bad := listed(t, s)
		if len(good) != 3 || len(bad) != 2 || bad["b"] == nil || bad["d"] == nil {
			t.Errorf("it shows %v and %v", good, bad)
		}
	})

	t.Run("an_expiry_beside_it_is_still_hinted_at", func(t *testing.T) {
		notices := s.Subscribe(t.Context(), driver.Prefix(""))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		brief := held("brief", "z", 1)
		brief.Duration = 100 * time.Millisecond
		storetest.Swap(t, open(t, shared.url()), brief)
		next(t, notices)

		s.notifier.mu.Lock()
		for _, name := range []string{"b", "d", "brief"} {
			s.notifier.expectLocked(name, time.Now().Add(300*time.Millisecond))
		}
		s.notifier.mu.Unlock()

		if got := next(t, notices); got.Name != "brief" {
			t.Errorf("%+v is notified of", got)
		}
	})

	t.Run("a_server_that_does_not_answer_ends_the_list", func(t *testing.T) {
		p := startProxy(t, shared.addr())
		far := open(t, p.url())
		p.l.Close()
		p.cut()
		n := 0

		for l, err := range far.List(t.Context(), "") {
			if n++; err == nil || l.Name != "" {
				t.Errorf("it shows %+v, %v", l, err)
			}
		}

		if n != 1 {
			t.Errorf("it yields %d times", n)
		}
	})
}
