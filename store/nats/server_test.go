package nats

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

const election = "orders"

// The tests use real servers, which are processes of their own.
var (
	lab    *natstest.Lab
	shared []*natstest.Server // a single server, for most tests, each with a stream of its own
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		lab, err = natstest.New()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer lab.Close()

		if shared, err = lab.Start("shared", 1, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer natstest.Stop(shared)
		return m.Run()
	}())
}

// numbers counts the streams and clusters of this run, so that no two tests share one.
var numbers atomic.Int64

// fresh returns the address of a stream of the shared server that does not exist yet.
func fresh() string { return natstest.Address(shared, fmt.Sprintf("/T%d", numbers.Add(1))) }

// servers starts a cluster for one test.
func servers(t testing.TB, n int, more string) []*natstest.Server {
	t.Helper()
	name := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	all, err := lab.Start(fmt.Sprint(name, numbers.Add(1)), n, more)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { natstest.Stop(all) })
	return all
}

// open opens a store that is closed with the test.
func open(t testing.TB, addr string) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), addr, Options{}))
}

// plain returns a client of NATS, for what tests do behind a store's back.
func plain(t testing.TB, all []*natstest.Server) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(natstest.Address(all[:1], ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// held returns a record that a member holds.
func held(name, id string, epoch uint64) driver.Record {
	l := driver.Record{Name: name, Epoch: epoch, Nonce: epoch, Duration: time.Minute}
	l.Holder = driver.Identity{ID: id, Incarnation: strings.ToUpper(id) + "1"}
	return l
}
