package core

import "testing"

// Claims of unknown outcome are remembered, since any of them may have been applied, but not without a bound.
func TestClaimsOfUnknownOutcome(t *testing.T) {
	for n, want := range map[int]int{1: 1, 8: 8, 9: 8, 20: 8} {
		r := newRig(t, clusterConfig())
		r.lead()
		e := r.c.elections.all[0]
		for range n {
			r.c.bid(e, &e.rec)
		}
		equal(t, "claims that are remembered", len(e.claims), want)
	}
}
