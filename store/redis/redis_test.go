package redis

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// suite runs the conformance suite on a server, from an empty database for every test.
func suite(t *testing.T, flush func(testing.TB), url string) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		flush(t)
		return func() (driver.Store, error) { return Open(t.Context(), url, Options{}) }
	})
}

func TestStore(t *testing.T) {
	suite(t, func(t testing.TB) { empty(t) }, shared.url())
}

// leastPrivilege is the ACL line of docs/STORES.md, for any election whose name begins with seat.
var leastPrivilege = strings.Fields(`ACL SETUSER regent on >s3cret resetkeys resetchannels -@all
	~seat* ~{seat*}:regent ~regent/* ~{regent/*}:regent ~{regent}:index &regent:wake:*
	+eval +evalsha +get +set +del +pexpire +pttl +persist +time +zadd +zrem +zrange 
	+publish +subscribe +unsubscribe +ping +info +config|get`)

func TestStoreWithLeastPrivilege(t *testing.T) {
	srv := startServer(t, "--save", "")
	// The suite has registers of many names.
	cli(t, srv, append(slices.Clone(leastPrivilege), "~*")...)
	suite(t, func(t testing.TB) { cli(t, srv, "FLUSHALL") }, "redis://regent:s3cret@"+srv.addr())

	t.Run("the_acl_line_is_enough", func(t *testing.T) {
		cli(t, srv, "FLUSHALL")
		cli(t, srv, leastPrivilege...)
		s := open(t, "redis://regent:s3cret@"+srv.addr())
		notices := s.Subscribe(t.Context(), driver.Prefix("seat"))
		l := storetest.Swap(t, s, held("seat/1", "a", 1))
		storetest.Swap(t, s, held(driver.MemberRegister("a"), "a", 1))
		next(t, notices)
		if got := storetest.Names(t, s, ""); !slices.Equal(got, []string{"regent/member/a", "seat/1"}) {
			t.Errorf("List yields %q", got)
		}

		storetest.Swap(t, s, driver.Record{Name: l.Name, Rev: l.Rev, Epoch: 1, Nonce: 2})
	})
}

func TestStoreBehindSlowProxy(t *testing.T) {
	p := startProxy(t, shared.addr())
	p.set(func() { p.delay = time.Millisecond })
	suite(t, func(t testing.TB) { empty(t) }, p.url())
}

func TestStoreWithPrefixAndDatabase(t *testing.T) {
	suite(t, func(t testing.TB) { empty(t) }, shared.url()+"/3?prefix=app%20%5B1%5D*:")
	s := open(t, shared.url()+"/3?prefix=app:")
	empty(t)
	storetest.Swap(t, s, held("seat", "a", 1))
	c := raw(t, shared)
	if n := ask(t, c, "DBSIZE"); n != "0" {
		t.Errorf("%s keys in database 0", n)
	}

	ask(t, c, "SELECT", "3")
	keys := strings.Split(ask(t, c, "KEYS", "*"), "\n")
	slices.Sort(keys)
	if want := []string{"app:seat", "app:{regent}:index", "{app:seat}:regent"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

func get(t testing.TB, s *Store, name string) driver.Record {
	t.Helper()
	l, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func refused(t testing.TB, s *Store, l driver.Record) {
	t.Helper()
	if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("Swap of %q at %q: %v, want ErrConflict", l.Name, l.Rev, err)
	}
}

func released(l driver.Record) driver.Record {
	return driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1, Duration: l.Duration}
}

func pttl(t testing.TB, c rueidis.Client, key string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(ask(t, c, "PTTL", key))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Millisecond
}

func TestKeys(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)

	t.Run("a_seat_with_its_own_lease_is_a_key_that_expires", func(t *testing.T) {
		l := storetest.Swap(t, s, held("own", "a", 1))
		if got := ask(t, c, "GET", "own"); got != l.Holder.String() {
			t.Errorf("GET own = %q, want %q", got, l.Holder)
		}

		if left := pttl(t, c, "own"); left <= 0 || left > l.Duration {
			t.Errorf("own expires in %v", left)
		}

		l = storetest.Swap(t, s, released(l))
		if got := ask(t, c, "EXISTS", "own"); got != "0" {
			t.Error("a released seat still has its key")
		}

		if got := get(t, s, "own"); got.Epoch != 1 || !got.Vacant() {
			t.Errorf("after a release: %+v", got)
		}
	})

	t.Run("a_register_never_expires", func(t *testing.T) {
		storetest.Swap(t, s, held("lasting", "a", 1))
		if got := pttl(t, c, "{lasting}:regent"); got != -time.Millisecond {
			t.Errorf("the register expires in %v", got)
		}

		ask(t, c, "PEXPIRE", "{lasting}:regent", "60000") // somebody's mistake
		get(t, s, "lasting")
		if got := pttl(t, c, "{lasting}:regent"); got != -time.Millisecond {
			t.Errorf("the register expires in %v", got)
		}
	})

	t.Run("what_others_keep_alive_and_members_do_not_expire", func(t *testing.T) {
		l := held("via", "a", 1)
		l.Via = driver.MemberRegister("a")
		storetest.Swap(t, s, l)
		storetest.Swap(t, s, held(driver.MemberRegister("a"), "a", 1))
		for _, key := range []string{"via", "regent/member/a"} {
			if got := ask(t, c, "GET", key); got != l.Holder.String() {
				t.Errorf("GET %s = %q", key, got)
			}
			if left := pttl(t, c, key); left != -time.Millisecond {
				t.Errorf("%s expires in %v", key, left)
			}
		}
	})

	t.Run("an_edit_leaves_the_expiry_alone", func(t *testing.T) {
		l := held("edited", "a", 1)
		l.Duration = time.Hour
		l = storetest.Swap(t, s, l)
		ask(t, c, "PEXPIRE", "edited", "5000")
		l.Next = "b"
		l = storetest.Swap(t, s, l)

		if left := pttl(t, c, "edited"); left > 5*time.Second || left <= 0 {
			t.Errorf("after an edit it expires in %v", left)
		}

		l.Nonce++
		storetest.Swap(t, s, l)
		if left := pttl(t, c, "edited"); left < 59*time.Minute {
			t.Errorf("after a renewal it expires in %v", left)
		}
	})

	t.Run("odd_names_have_keys_of_one_slot", func(t *testing.T) {
		for name, key := range map[string]string{"a{b}c": "a%7Bb%7Dc", "}": "%7D", "50%": "50%25",
			"{a}:regent": "%7Ba%7D:regent"} {
			storetest.Swap(t, s, held(name, "a", 1))
			if ask(t, c, "EXISTS", key, "{"+key+"}:regent") != "2" {
				t.Errorf("register %q is not at %q", name, key)
			}
			if back, ok := s.nameOf(key); !ok || back != name {
				t.Errorf("key %q is taken for %q", key, back)
			}
		}
	})

	t.Run("a_key_of_another_type_is_in_other_hands", func(t *testing.T) {
		ask(t, c, "LPUSH", "list", "x")
		refused(t, s, held("list", "a", 1))
		if got := get(t, s, "list"); got.Vacant() {
			t.Error("it is said to be vacant")
		}
		if ask(t, c, "TYPE", "list") != "list" {
			t.Error("it was overwritten")
		}
	})

	t.Run("a_register_of_somebody_else_is_left_alone", func(t *testing.T) {
		ask(t, c, "SET", "{other}:regent", "my notes")
		if l, err := s.Get(t.Context(), "other"); err == nil || errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get: %+v, %v", l, err)
		}
		if _, err := s.Swap(t.Context(), held("other", "a", 1)); err == nil {
			t.Error("it was overwritten")
		}
		ask(t, c, "DEL", "{other}:regent")
	})
}

func TestSeatInOtherHands(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	lock := func(t *testing.T, key string, ms int) {
		if ask(t, c, "SET", key, "someone else", "NX", "PX", strconv.Itoa(ms)) != "OK" {
			t.Fatalf("%s is taken", key)
		}
	}

	t.Run("a_plain_lock_is_respected_until_it_expires", func(t *testing.T) {
		lock(t, "plain", 3000)
		refused(t, s, held("plain", "a", 1))
		got := get(t, s, "plain")
		// Its key ends it, not the clock of its reader.
		if got.Holder.ID != "someone else" || got.Duration < time.Hour || got.Rev == "" {
			t.Errorf("Get shows %+v", got)
		}

		bid := held("plain", "a", 2)
		bid.Rev = got.Rev
		refused(t, s, bid)
		notices := s.Subscribe(t.Context(), driver.Prefix("plain"))
		get(t, s, "plain")

		for !errors.Is(missing(s, "plain"), driver.ErrNotFound) {
			next(t, notices)
		}

		storetest.Swap(t, s, held("plain", "a", 3))
	})

	t.Run("a_lock_that_is_renewed_has_another_revision", func(t *testing.T) {
		lock(t, "renewed", 10_000)
		first := get(t, s, "renewed")
		ask(t, c, "PEXPIRE", "renewed", "20000")
		if got := get(t, s, "renewed"); got.Rev == first.Rev || got.Duration < 19*time.Second {
			t.Errorf("after %+v: %+v", first, got)
		}

		ask(t, c, "PERSIST", "renewed")
		if got := get(t, s, "renewed"); got.Duration != foreignLease {
			t.Errorf("without an expiry: %+v", got)
		}
	})

	t.Run("what_it_does_not_hold_can_be_edited", func(t *testing.T) {
		storetest.Swap(t, s, released(storetest.Swap(t, s, held("paused", "a", 1))))
		lock(t, "paused", 60_000)
		l := get(t, s, "paused")
		l.Paused = true
		storetest.Swap(t, s, l)
		if got := get(t, s, "paused"); !got.Paused || got.Holder.ID != "someone else" || got.Epoch != 1 {
			t.Errorf("Get shows %+v", got)
		}

		if got := ask(t, c, "GET", "paused"); got != "someone else" {
			t.Errorf("the seat is now %q", got)
		}
	})

	t.Run("a_release_never_clears_another_holder", func(t *testing.T) {
		l := storetest.Swap(t, s, held("stolen", "a", 1))
		ask(t, c, "SET", "stolen", "a thief")
		renewal := l
		renewal.Nonce++
		refused(t, s, renewal)
		storetest.Swap(t, s, released(l))
		if got := ask(t, c, "GET", "stolen"); got != "a thief" {
			t.Errorf("the seat is now %q", got)
		}
	})
}

func TestScriptsAreSentAgain(t *testing.T) {
	s := open(t, empty(t).url())
	c := raw(t, shared)
	forget := func() { ask(t, c, "SCRIPT", "FLUSH") }
	forget()
	l := storetest.Swap(t, s, held("seat", "a", 1))
	forget()

	get(t, s, "seat")
	forget()
	ls := []driver.Record{l, held("x", "a", 1), held("y", "a", 1)}
	for _, o := range s.SwapAll(t.Context(), ls) {
		if o.Err != nil {
			t.Error(o.Err)
		}
	}

	forget()
	if got := storetest.Names(t, s, ""); len(got) != 3 {
		t.Errorf("List yields %q", got)
	}
}
