package kube

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/kubetest"
	"github.com/regentd/regent/storetest"
	"k8s.io/client-go/rest"
)

// within is how long a test waits for what must happen.
const within = 3 * time.Minute

// shared is an API server for most tests, each with a namespace of its own. It is started by the first one.
var shared = sync.OnceValues(func() (*kubetest.Server, error) {
	s, err := kubetest.Start([]string{"regent", "reader", "nobody"})
	running = s
	return s, err
})

var running *kubetest.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		defer func() {
			if running != nil {
				running.Stop()
			}
		}()
		return m.Run()
	}())
}

// server returns the shared API server, or skips the test.
func server(t testing.TB) *kubetest.Server {
	t.Helper()
	if !kubetest.Available() {
		t.Skip(kubetest.Missing)
	}
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// own starts an API server for one test, which may kill it.
func own(t testing.TB, args ...string) *kubetest.Server {
	t.Helper()
	if !kubetest.Available() {
		t.Skip(kubetest.Missing)
	}
	s, err := kubetest.Start(nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// namespaces counts the namespaces of this run, so that no two tests share one.
var namespaces atomic.Int64

// fresh returns the address of an empty namespace.
func fresh(t testing.TB, s *kubetest.Server) string {
	t.Helper()
	name := fmt.Sprintf("t%d", namespaces.Add(1))
	if err := s.Namespace(name); err != nil {
		t.Fatal(err)
	}
	return "kube://" + name + "?kubeconfig=" + kubeconfig(t, s, kubetest.Admin, "")
}

// namespaceOf returns the namespace of an address.
func namespaceOf(addr string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(addr, "kube://"), "?")
	return name
}

// kubeconfig returns the file by which a user reaches an API server, or what is in front of it.
func kubeconfig(t testing.TB, s *kubetest.Server, user, url string) string {
	t.Helper()
	file, err := s.Kubeconfig(user, url)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// configOf returns the configuration that an address stands for, for what tests do behind a store's back.
func configOf(t testing.TB, addr string) *rest.Config {
	t.Helper()
	a, err := parseAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.config(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a store that is closed with the test.
func open(t testing.TB, addr string) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), addr, Options{}))
}

// held returns a record that a member holds. Its nonce is its epoch.
func held(name, id string, epoch uint64) driver.Record {
	holder := driver.Identity{ID: id, Incarnation: strings.ToUpper(id) + "1"}
	return driver.Record{Name: name, Holder: holder, Epoch: epoch, Nonce: epoch, Duration: time.Minute}
}

// eventually asks until what is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	end := time.Now().Add(within)
	for !f() {
		if t.Failed() || time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
