package redis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestWake(t *testing.T) {
	c := raw(t, empty(t))

	t.Run("nothing_is_published_for_renewals", func(t *testing.T) {
		s := open(t, shared.url())
		l := storetest.Swap(t, s, held("quiet", "a", 1))
		before := requests(t, shared)["publish"]
		for range 10 {
			l.Nonce++
			l.Data = []byte(fmt.Sprint(l.Nonce))
			l = storetest.Swap(t, s, l)
		}

		storetest.Swap(t, s, released(l))
		// On the channel of the register, and on the shared one.
		if got := requests(t, shared)["publish"] - before; got != 2 {
			t.Errorf("10 renewals and a release were published %d times, want 2", got)
		}
	})

	t.Run("a_store_knows_its_own_release", func(t *testing.T) {
		s := open(t, shared.url())
		notices := s.Subscribe(t.Context(), driver.Prefix("own"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		l := storetest.Swap(t, s, held("own", "a", 1))
		next(t, notices)
		l = storetest.Swap(t, s, released(l))
		if got := next(t, notices); got.Rev != l.Rev || got.Epoch != l.Epoch {
			t.Errorf("notified %+v, written %+v", got, l)
		}

		// A message under that revision stands for what was written, whatever it says.
		ask(t, c, "PUBLISH", s.channel, string(s.appendKey(nil, l.Name))+"\n"+l.Rev+"\n{")
		if got := next(t, notices); got.Rev != l.Rev || got.Epoch != l.Epoch {
			t.Errorf("notified %+v, written %+v", got, l)
		}
	})

	t.Run("a_release_is_told_with_its_record", func(t *testing.T) {
		a, b := open(t, shared.url()), open(t, shared.url())
		notices := b.Subscribe(t.Context(), driver.Prefix("notified"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		l := held("notified {50%}", "a", 1)
		l.Data, l.Past = []byte("line\nline"), []driver.Past{{Holder: "z\n", Epoch: 1}}
		l = storetest.Swap(t, a, l)

		if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: l.Name}) {
			t.Errorf("a claim is notified as %+v", got)
		}

		l = storetest.Swap(t, a, released(l))
		if got, want := next(t, notices), get(t, b, l.Name); !reflect.DeepEqual(got, want) || got.Rev != l.Rev {
			t.Errorf("notified %+v, it shows %+v", got, want)
		}

		// What somebody else publishes is read from the register, whatever it says.
		record := string(l.AppendJSON(nil))
		for _, forged := range []string{record + " ", strings.Replace(record, `"epoch":`, `"epoch":9`, 1), "", "{"} {
			ask(t, c, "PUBLISH", b.channel, string(b.appendKey(nil, l.Name))+"\n"+l.Rev+"\n"+forged)
			if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: l.Name}) {
				t.Errorf("%s under %s is believed: %+v", forged, l.Rev, got)
			}
		}

		digest := string(appendDigest(nil, []byte(record)))
		for _, rev := range []string{"1.x.1", l.Rev + "~x" + digest, l.Rev + "!" + digest, l.Rev + "@x" + digest,
			digest + "~"} {
			ask(t, c, "PUBLISH", b.channel, string(b.appendKey(nil, l.Name))+"\n"+rev+"\n"+record)
			if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: l.Name}) {
				t.Errorf("revision %s is believed: %+v", rev, got)
			}
		}

		// The records of many swaps would cost more than they save.
		l.Holder = held("", "b", 1).Holder
		l.Epoch = 2
		l.Nonce = l.Nonce + 1
		l = storetest.Swap(t, a, l)
		next(t, notices)
		if out := a.SwapAll(t.Context(), []driver.Record{released(l)}); out[0].Err != nil {
			t.Fatal(out[0].Err)
		}

		if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: l.Name}) {
			t.Errorf("one of a batch is notified as %+v", got)
		}
	})

	t.Run("what_regent_keeps_for_itself_is_not_published", func(t *testing.T) {
		a, b := open(t, shared.url()), open(t, shared.url())
		notices := b.Subscribe(t.Context(), driver.Prefix("regent/polls/"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		l := released(held("regent/polls/00/seat", "", 0))
		l.Data = []byte("secret")
		storetest.Swap(t, a, l)
		if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: l.Name}) {
			t.Errorf("notified %+v", got)
		}
	})

	t.Run("an_expiry_is_hinted_at_when_it_comes", func(t *testing.T) {
		a, b := open(t, shared.url()), open(t, shared.url())
		notices := b.Subscribe(t.Context(), driver.Prefix("brief"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
		l := held("brief", "a", 1)
		l.Duration = 3 * time.Second // long enough for a machine that stands still now and then
		storetest.Swap(t, a, l)

		await(t, "notification of the claim", 5*time.Second, func() bool { return took(notices) })
		get(t, b, "brief")
		began := time.Now()
		if got := next(t, notices); !reflect.DeepEqual(got, driver.Record{Name: "brief"}) {
			t.Errorf("an expiry is notified as %+v", got)
		}

		if !get(t, b, "brief").Vacant() {
			t.Error("notified of before it has expired")
		}

		if after := time.Since(began); after > 10*time.Second {
			t.Errorf("notified of after %v", after)
		}
	})

	t.Run("of_several_only_an_expired_one_is_hinted_at", func(t *testing.T) {
		a, b := open(t, shared.url()), open(t, shared.url())
		dying, kept := held("several/dying", "a", 1), held("several/kept", "a", 1)
		// Long enough for a machine that stands still now and then.
		dying.Duration, kept.Duration = 6*time.Second, 3*time.Second
		storetest.Swap(t, a, dying)
		kept = storetest.Swap(t, a, kept)
		notices := b.Subscribe(t.Context(), driver.Prefix("several/"))
		await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })

		get(t, b, dying.Name)
		get(t, b, kept.Name)
		renew := time.NewTicker(50 * time.Millisecond)
		defer renew.Stop()

		for {
			select {
			case <-renew.C:
				kept.Nonce++
				kept = storetest.Swap(t, a, kept)
				continue
			case l := <-notices:
				if !reflect.DeepEqual(l, driver.Record{Name: dying.Name}) {
					t.Errorf("an expiry is notified as %+v", l)
				}
			}

			break
		}

		if got := get(t, b, dying.Name); !got.Vacant() {
			t.Errorf("notified of while nothing had expired")
		}
	})

	t.Run("a_subscription_ends_with_its_last_user", func(t *testing.T) {
		s := open(t, shared.url()+"?prefix=sub:")
		subscribers := func() string { return strings.Fields(ask(t, c, "PUBSUB", "NUMSUB", s.channel))[1] }
		for range 3 {
			stop := make([]func(), 2)
			for i := range stop {
				ctx, cancel := contextOf(t)
				stop[i] = cancel
				s.Subscribe(ctx, driver.Prefix("x"))
			}

			await(t, "one subscriber", 5*time.Second, func() bool { return subscribers() == "1" })
			stop[0]()
			stop[1]()
			await(t, "no subscriber", 5*time.Second, func() bool { return subscribers() == "0" })
		}

		s.notifier.mu.Lock()
		defer s.notifier.mu.Unlock()

		if len(s.notifier.expiry) != 0 || s.notifier.timer != nil {
			t.Error("timers are left")
		}
	})
}

// next waits for a notification.
func next(t *testing.T, notices <-chan driver.Record) driver.Record {
	t.Helper()
	select {
	case l := <-notices:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("no notice")
		return driver.Record{}
	}
}

func took(notices <-chan driver.Record) bool {
	select {
	case <-notices:
		return true
	default:
		return false
	}
}
