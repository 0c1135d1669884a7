package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestQuotaExceeded fills a cluster until it accepts no writes (NOSPACE), and makes room.
func TestQuotaExceeded(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1, "--quota-backend-bytes=1000000")
	addr := etcdtest.Address(all, "")
	s := open(t, addr)
	client := plain(t, all...)

	l := held("a", "x", 1)
	l.Data = make([]byte, driver.MaxData)
	var err error
	for before := l; err == nil; before = l {
		l.Nonce++
		l, err = s.Swap(t.Context(), l)
		if err != nil {
			l = before
		}
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, driver.ErrConflict) ||
		errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Fatalf("a swap that exceeds the quota: %v, want an unknown outcome, and what to do", err)
	}

	// etcd has applied the transaction that exceeded the quota, or not: the register shows it.
	got := drivertest.Settled(t, s, "a")
	if applied := got.Rev != l.Rev; applied && got.Nonce != l.Nonce+1 {
		t.Errorf("the register shows nonce %d at revision %s", got.Nonce, got.Rev)
	}

	var warned []string
	other := storetest.Opened[*Store](t)(Open(t.Context(), addr, Options{OnWarning: func(w string) {
		warned = append(warned, w)
	}}))
	if len(warned) != 1 || !strings.Contains(warned[0], "quota") {
		t.Errorf("Open warns of %q", warned)
	}
	if _, err := other.Get(t.Context(), "a"); err != nil {
		t.Errorf("a read while the quota is exceeded: %v", err)
	}

	now, err := client.Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(t.Context(), all[0].Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	got.Nonce++
	storetest.Swap(t, s, got)
}
