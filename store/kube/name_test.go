package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLeaseNames(t *testing.T) {
	for name, want := range map[string]string{
		"coordinator":                 "coordinator",
		"my-operator.example.com":     "my-operator.example.com",
		"stargate:leader":             "stargate.x3a.leader",
		"regent/member/node-a":        "regent.x2f.member.x2f.node-a",
		"/a//b-":                      "x2f.a.x2f2f.b.x2d",
		"A.b":                         "x412e.b",
		"xab":                         "x786162",
		"é":                           "xc3a9",
		"orders.x2f.node":             "orders.x2e.x783266.x2e.node",
		"z" + strings.Repeat("a", 52): "x7a" + strings.Repeat("61", 52),
	} {
		for _, prefix := range []string{"", "app"} {
			a := &address{prefix: prefix}
			full := want
			if prefix != "" {
				full = prefix + "." + want
			}
			if got := a.leaseName(name); got != full {
				t.Errorf("register %q has Lease %q, want %q", name, got, full)
			}
			if got, ok := a.registerName(full); got != name || !ok {
				t.Errorf("Lease %q is register %q, %v, want %q", full, got, ok, name)
			}
		}
	}

	if name, ok := (&address{prefix: "app"}).registerName("other.a"); ok {
		t.Errorf("a Lease of another prefix is register %q", name)
	}
}

// FuzzLeaseNames checks that every name is a Lease of its own, which Kubernetes takes.
func FuzzLeaseNames(f *testing.F) {
	f.Add("regent/member/a", "a.b")
	f.Add(strings.Repeat("é", 125), strings.Repeat("é", 124)+"e")
	f.Add("x2f", "/")
	f.Add("a-.b", "a.-b")
	f.Add(strings.Repeat("a", 194)+"-"+strings.Repeat("b", 100), strings.Repeat("a", 194)+"."+strings.Repeat("b", 100))
	f.Fuzz(func(t *testing.T, a, b string) {
		at := &address{prefix: "app"}
		leases := map[string]bool{}
		for _, name := range []string{a, b} {
			if name == "" {
				return
			}
			lease := at.leaseName(name)
			if wrong := validation.IsDNS1123Subdomain(lease); len(wrong) > 0 {
				t.Fatalf("register %q has Lease %q: %v", name, lease, wrong)
			}
			if back, ok := at.registerName(lease); ok && back != name {
				t.Fatalf("register %q has Lease %q, which is register %q", name, lease, back)
			}
			leases[lease] = true
		}
		if a != b && len(leases) == 1 {
			t.Errorf("registers %q and %q share a Lease", a, b)
		}
	})
}
