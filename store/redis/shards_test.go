package redis

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestShardChannels(t *testing.T) {
	all := startCluster(t, "--cluster-require-full-coverage", "no")
	url := "redis://" + all[0].addr() + "," + all[1].addr() + "?cluster=true"
	sharded := func(srv *server, channel string) bool {
		return strings.HasSuffix(strings.TrimSpace(cli(t, srv, "PUBSUB", "SHARDNUMSUB", channel)), "1")
	}

	t.Run("a_name_is_a_channel_of_its_shard", func(t *testing.T) {
		a, b := open(t, url), open(t, url)
		for _, name := range []string{"seat 1", "seat 2", "seat {3}", "seat 4"} {
			own := b.channelOf(driver.Topic{Name: name})
			to := driver.Names(name)
			notices := b.Subscribe(t.Context(), to)
			home := shard(t, all, own)
			if home != shard(t, all, "{"+string(a.appendKey(nil, name))+"}:regent") {
				t.Fatalf("%q is published on another node than it is written to", name)
			}

			await(t, "subscribed", 5*time.Second, func() bool { return sharded(home, own) && took(notices) })
			l := storetest.Swap(t, a, held(name, "a", 1))
			if got := next(t, notices); got.Name != name || got.Rev != "" {
				t.Errorf("notified of %+v", got)
			}

			l = storetest.Swap(t, a, released(l))
			if got := next(t, notices); got.Rev != l.Rev {
				t.Errorf("notified of %+v, want revision %s", got, l.Rev)
			}

			for _, srv := range all {
				if n := subscribers(t, srv, b.channel); n != 0 {
					t.Errorf("the shared channel has %d subscribers", n)
				}
			}

			to.Remove(name)
			await(t, "unsubscribed", 5*time.Second, func() bool { return !sharded(home, own) })
		}
	})

	t.Run("many_names_are_the_shared_channel_and_few_are_not", func(t *testing.T) {
		testSwitch(t, all, open(t, url), open(t, url))
	})

	t.Run("a_slot_that_moves_takes_its_subscriptions_along", func(t *testing.T) {
		const name = "moving"
		a, b := open(t, url), open(t, url)
		own := b.channelOf(driver.Topic{Name: name})
		l := storetest.Swap(t, a, held(name, "a", 1))
		notices := b.Subscribe(t.Context(), driver.Names(name))
		from := shard(t, all, own)
		await(t, "subscribed", 5*time.Second, func() bool { return sharded(from, own) && took(notices) })

		to := all[0]
		if to == from {
			to = all[1]
		}
		moveSlot(t, all, from, to, own)
		if got := next(t, notices); got.Name != name && got.Name != "" {
			t.Errorf("after the slot has moved: notified of %+v", got)
		}

		await(t, "subscribed there", 10*time.Second, func() bool { return sharded(to, own) })
		took(notices)
		l.Epoch++
		l.Nonce++
		storetest.Swap(t, a, l)
		if got := next(t, notices); got.Name != name && got.Name != "" {
			t.Errorf("notified of %+v", got)
		}
	})

	t.Run("a_node_that_is_lost_and_comes_again_is_subscribed_to_again", func(t *testing.T) {
		const name = "lost"
		a, b := open(t, url), open(t, url)
		own := b.channelOf(driver.Topic{Name: name})
		home := shard(t, all, own)
		notices := b.Subscribe(t.Context(), driver.Names(name))
		await(t, "subscribed", 5*time.Second, func() bool { return sharded(home, own) && took(notices) })
		home.stop(syscall.SIGKILL)
		if err := home.start(); err != nil {
			t.Fatal(err)
		}
		whole(t, all)
		if got := next(t, notices); got.Rev != "" {
			t.Errorf("after another connection: notified of %+v", got)
		}

		await(t, "subscribed again", 20*time.Second, func() bool { return sharded(home, own) })
		took(notices)
		storetest.Swap(t, a, held(name, "a", 1))
		if got := next(t, notices); got.Name != name && got.Name != "" {
			t.Errorf("notified of %+v", got)
		}
	})
}

// moveSlot moves the hash slot of a key, with what is in it, from one node to another.
func moveSlot(t *testing.T, all []*server, from, to *server, key string) {
	t.Helper()
	ok := func(srv *server, args ...string) {
		t.Helper()
		if out := cli(t, srv, args...); !strings.Contains(out, "OK") {
			t.Fatalf("%q: %s", args, out)
		}
	}

	slot := strings.TrimSpace(cli(t, from, "CLUSTER", "KEYSLOT", key))
	source := strings.TrimSpace(cli(t, from, "CLUSTER", "MYID"))
	target := strings.TrimSpace(cli(t, to, "CLUSTER", "MYID"))
	ok(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	ok(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := strings.Cut(to.addr(), ":")
	for key := range strings.Lines(cli(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "100")) {
		if key = strings.TrimSpace(key); key != "" {
			ok(from, "MIGRATE", host, port, key, "0", "5000")
		}
	}

	for _, srv := range append([]*server{to, from}, all...) {
		ok(srv, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}
