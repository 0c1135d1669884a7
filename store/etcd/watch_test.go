package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestCompactionUnderAWatch compacts what a watch has not shown yet. The server then ends the watch.
func TestCompactionUnderAWatch(t *testing.T) {
	t.Parallel()
	p, far, near, woken, _ := behind(t)
	p.Set(drivertest.Faults{Hold: true}) // the server can send nothing more

	l := held("busy", "x", 1)
	l.Data = make([]byte, 8<<10)
	for range 400 {
		l.Nonce++
		l = storetest.Swap(t, near, l)
	}
	client := plain(t, shared...)
	now, err := client.Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}

	p.Set(drivertest.Faults{})
	drivertest.Zero(t, woken)
	drivertest.Listens(t, far, woken)
}

// TestSubscriptionsComeAndGo ends and begins watches of one stream.
func TestSubscriptionsComeAndGo(t *testing.T) {
	s := open(t, fresh())
	stays := s.Subscribe(t.Context(), driver.Names("probe"))
	<-stays // it begins
	for i := range 20 {
		ctx, cancel := newContext(t)
		name := fmt.Sprintf("e%d", i)
		woken := s.Subscribe(ctx, driver.Names(name))
		<-woken // it begins
		l := storetest.Swap(t, s, held(name, "x", 1))
		if got := <-woken; got.Rev != l.Rev {
			t.Errorf("notified of %+v, want revision %s", got, l.Rev)
		}
		cancel()
	}
	drivertest.Listens(t, s, stays)

	drivertest.Eventually(t, "one watch is left", func() bool {
		s.notifier.mu.Lock()
		defer s.notifier.mu.Unlock()
		return len(s.notifier.watches) == 1 && len(s.notifier.topics) == 1
	})
}

// TestNotificationHasTheRecord checks that a standby can claim what was released without a read.
func TestNotificationHasTheRecord(t *testing.T) {
	addr := fresh()
	a, b := open(t, addr), open(t, addr)
	woken := b.Subscribe(t.Context(), driver.Names(election))
	<-woken // it begins
	l := storetest.Swap(t, a, held(election, "x", 1))
	<-woken
	l.Holder = driver.Identity{}
	l.Data = []byte("saved")
	l = storetest.Swap(t, a, l)

	got := <-woken
	if got.Rev != l.Rev || string(got.Data) != "saved" || !got.Vacant() {
		t.Fatalf("notified of %+v, want the vacant record at %s", got, l.Rev)
	}
	got.Holder = driver.Identity{ID: "b", Incarnation: "B1"}
	got.Epoch++
	storetest.Swap(t, b, got)
}

// TestWatchAfterARollback restores a snapshot under a watch. The revision that the watch has seen last is then in the
// future.
func TestWatchAfterARollback(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1)
	s := open(t, etcdtest.Address(all, ""))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	storetest.Swap(t, s, held("a", "x", 1))
	back := snapshot(t, all[0])
	for range 50 { // revisions that are lost
		drivertest.Listens(t, s, woken)
	}

	back()
	drivertest.Listens(t, s, woken)
}

// TestWatchesOfAnExpiredLogIn begins a watch on a stream whose log-in the server does not know any more, as happens to
// every stream that is older than a token.
func TestWatchesOfAnExpiredLogIn(t *testing.T) {
	t.Parallel()
	all := withUsers(t)
	s := open(t, strings.Replace(etcdtest.Address(all, ""), "://", "://writer:s3cret@", 1))
	begun := s.Subscribe(t.Context(), driver.Names("first"))
	<-begun

	root, err := clientv3.New(clientv3.Config{
		Endpoints: []string{all[0].Addr()}, Username: "root", Password: "r00t", Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.UserChangePassword(t.Context(), "writer", "s3cret"); err != nil { // it ends all log-ins
		t.Fatal(err)
	}

	woken := s.Subscribe(t.Context(), driver.Names("probe"))
	drivertest.Listens(t, s, woken)
}

// TestWatchWithoutPermission follows a register that this user may not read, beside one that it may. The watch of the
// other one goes on, and its subscriber is not woken again and again.
func TestWatchWithoutPermission(t *testing.T) {
	t.Parallel()
	all := withUsers(t)
	root, err := clientv3.New(clientv3.Config{
		Endpoints: []string{all[0].Addr()}, Username: "root", Password: "r00t", Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.RoleAdd(t.Context(), "one"))
	must(root.RoleGrantPermission(t.Context(), "one", DefaultPrefix+"probe", "",
		clientv3.PermissionType(clientv3.PermReadWrite)))
	must(root.UserAdd(t.Context(), "one", "s3cret"))
	must(root.UserGrantRole(t.Context(), "one", "one"))

	addr := strings.Replace(etcdtest.Address(all, ""), "://", "://one:s3cret@", 1)
	parsed, err := parseAddress(addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	warned := make(chan string, 10)
	s := &Store{addr: parsed, warn: func(w string) { warned <- w }}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	s.notifier.init(s)
	defer s.Close()
	if err := s.connect(t.Context(), Options{NoProbe: true}); !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("a user who may not list the registers: %v, want ErrRefused", err)
	}

	woken := s.Subscribe(t.Context(), driver.Names("probe", "secret"))
	if got := <-warned; !strings.Contains(got, "polling alone") {
		t.Errorf("warned of %q", got)
	}
	drivertest.Listens(t, s, woken)
	if n := s.Requests()["watch"]; n != 2 {
		t.Errorf("%d watches were asked for, want one for each register", n)
	}
}
