package kube

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// leaseOf returns the Lease that a store writes for a record.
func leaseOf(t *testing.T, a *address, l driver.Record) *coordinationv1.Lease {
	t.Helper()
	text, err := a.encode(l, at.UnixMicro())
	if err != nil {
		t.Fatal(err)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: a.leaseName(l.Name), UID: "u1", ResourceVersion: "7",
			Annotations: map[string]string{recordKey: text, revKey: "s.1"}, Labels: map[string]string{}},
		Spec: specOf(l, at.UnixMicro()),
	}
}

func TestLeaseFields(t *testing.T) {
	l := held(election, "node-a", 7)
	l.Since, l.Duration = at, 1500*time.Millisecond
	spec := specOf(l, at.UnixMicro())
	if *spec.HolderIdentity != "node-a" || *spec.LeaseDurationSeconds != 2 || *spec.LeaseTransitions != 6 ||
		!spec.RenewTime.Equal(&metav1.MicroTime{Time: at}) || !spec.AcquireTime.Equal(&metav1.MicroTime{Time: at}) {
		t.Errorf("a held register has the fields %v", spec.String())
	}

	l.Via = driver.MemberRegister("node-a")
	if spec := specOf(l, 0); *spec.LeaseDurationSeconds != math.MaxInt32 {
		t.Errorf("a Lease that is not renewed itself expires after %d s", *spec.LeaseDurationSeconds)
	}

	vacant := driver.Record{Name: election, Epoch: math.MaxUint64}
	spec = specOf(vacant, 0)
	if *spec.HolderIdentity != "" || *spec.LeaseDurationSeconds != 1 || *spec.LeaseTransitions != math.MaxInt32 ||
		spec.AcquireTime != nil {
		t.Errorf("a vacant register has the fields %v", spec.String())
	}
}

func TestRecordsComeBack(t *testing.T) {
	a := &address{prefix: "app"}
	l := held("a/b", "x", 3)
	l.Since, l.Data, l.Via = at, []byte("d"), driver.MemberRegister("x")
	for _, want := range []driver.Record{l, {Name: "a/b", Epoch: 3, Nonce: 9}} {
		got, err := a.decode(leaseOf(t, a, want))
		rev, ok := parseRevision(got.Rev)
		if err != nil || !ok || rev.version != "7" || rev.stamp != "s.1" || rev.nonce != want.Nonce {
			t.Fatalf("%+v, %v", got, err)
		}
		got.Rev = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
	}

	if got, err := (&address{}).decode(leaseOf(t, a, l)); err == nil {
		t.Errorf("a store reads the Lease of another prefix: %+v", got)
	}
}

// elector returns the Lease that client-go writes.
func elector(holder string, transitions, seconds int32, renewed time.Time) *coordinationv1.Lease {
	acquired, now := metav1.NewMicroTime(at), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: election, UID: "u1", ResourceVersion: "8"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
			LeaseTransitions: &transitions, AcquireTime: &acquired, RenewTime: &now},
	}
}

func TestLeaseOfAnElector(t *testing.T) {
	a := &address{}
	first, err := a.decode(elector("pod-1_x", 0, 15, at))
	if err != nil || first.Name != election || first.Holder.ID != "pod-1_x" || first.Holder.Incarnation == "" ||
		first.Epoch != 1 || first.Duration != 15*time.Second || first.Via != "" {
		t.Fatalf("%+v, %v", first, err)
	}

	renewed, _ := a.decode(elector("pod-1_x", 0, 15, at.Add(2*time.Second)))
	if renewed.Nonce == first.Nonce || renewed.Rev == first.Rev || renewed.Holder != first.Holder {
		t.Errorf("a renewal of %+v is %+v", first, renewed)
	}
	next, _ := a.decode(elector("pod-1_x", 1, 15, at))
	if next.Holder == first.Holder || next.Epoch != 2 {
		t.Errorf("another term of %+v is %+v", first, next)
	}
	if released, _ := a.decode(elector("", 1, 1, at)); !released.Vacant() || released.Epoch != 2 {
		t.Errorf("a released Lease is %+v", released)
	}
}

// TestElectorAfterRegent checks a Lease that an elector has taken: it keeps the annotations, which then are old.
func TestElectorAfterRegent(t *testing.T) {
	a := &address{}
	l := driver.Record{Name: election, Epoch: 7, Nonce: 3, Duration: time.Minute, Data: []byte("checkpoint"),
		Paused: true, Past: []driver.Past{{Epoch: 7, Holder: "node-a", Began: at, Ended: at, Reason: "shutdown"}}}
	lease := leaseOf(t, a, l)
	lease.Spec = elector("pod-1_x", *lease.Spec.LeaseTransitions+1, 15, at).Spec
	got, err := a.decode(lease)
	if err != nil || got.Holder.ID != "pod-1_x" || got.Epoch != 8 || string(got.Data) != "checkpoint" ||
		!got.Paused || len(got.Past) != 1 || got.Duration != 15*time.Second {
		t.Fatalf("%+v, %v", got, err)
	}

	for what, change := range map[string]func(*coordinationv1.LeaseSpec){
		"holderIdentity":       func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = new(string) },
		"renewTime":            func(s *coordinationv1.LeaseSpec) { s.RenewTime = nil },
		"leaseDurationSeconds": func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = new(int32) },
		"leaseTransitions":     func(s *coordinationv1.LeaseSpec) { *s.LeaseTransitions = 99 },
		"acquireTime":          func(s *coordinationv1.LeaseSpec) { s.AcquireTime = &metav1.MicroTime{Time: at} },
	} {
		lease := leaseOf(t, a, held(election, "node-a", 7))
		change(&lease.Spec)
		if got, err := a.decode(lease); err != nil || got.Epoch <= 7 || got.Holder.Incarnation == "NODE-A1" {
			t.Errorf("somebody has changed %s, and the record is %+v, %v", what, got, err)
		}
	}
}

func TestRevisions(t *testing.T) {
	for _, r := range []revision{{version: "1", uid: "u", stamp: "s.1", renewed: 12, nonce: math.MaxUint64, bare: "al"},
		{version: "2", uid: "u"}} {
		if got, ok := parseRevision(r.String()); !ok || got != r {
			t.Errorf("%+v came back as %+v", r, got)
		}
	}
	for _, text := range []string{"", "7", "a/b", "/u/s/1/1/", "1/u/s/!/1/", "1/u/s/1/!/"} {
		if r, ok := parseRevision(text); ok {
			t.Errorf("%q is the revision %+v", text, r)
		}
	}
}
