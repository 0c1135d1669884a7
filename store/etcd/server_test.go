package etcd

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const election = "orders"

// The tests use real servers, which are processes of their own.
var (
	lab    *etcdtest.Lab
	shared []*etcdtest.Member // a single member, for most tests, each with a prefix of its own
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if lab, err = etcdtest.New(); err == nil {
			defer lab.Close()
			shared, err = lab.Start("shared", 1)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer etcdtest.Stop(shared)
		return m.Run()
	}())
}

// prefixes counts the prefixes of this run, so that no two tests share one.
var prefixes atomic.Int64

// fresh returns the address of an empty prefix of the shared server.
func fresh() string { return etcdtest.Address(shared, fmt.Sprintf("/t%d", prefixes.Add(1))) }

// cluster starts a cluster for one test.
func cluster(t testing.TB, n int, args ...string) []*etcdtest.Member {
	t.Helper()
	name := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	all, err := lab.Start(fmt.Sprint(name, prefixes.Add(1)), n, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcdtest.Stop(all) })
	return all
}

// open opens a store that is closed with the test.
func open(t testing.TB, addr string) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), addr, Options{}))
}

// plain returns a client of etcd's own, for what tests do behind a store's back.
func plain(t testing.TB, all ...*etcdtest.Member) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range all {
		endpoints = append(endpoints, m.Addr())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// held returns a record that a member holds.
func held(name, id string, epoch uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: id, Incarnation: strings.ToUpper(id) + "1"}, Epoch: epoch, Nonce: epoch,
		Duration: time.Minute,
	}
}
