package sim

import (
	"slices"
	"strings"
	"testing"
)

// A seed repeats itself, but for what runs at one instant and takes turns as it likes: which of
// several ready channels a select takes, and in which order a map is walked, no seed decides.
func TestASeedRepeatsItself(t *testing.T) {
	seeds, same := uint64(50), 0
	for seed := uint64(1); seed <= seeds; seed++ {
		a, b := simulate(t, seed).Lines(), simulate(t, seed).Lines()
		if slices.Equal(a, b) {
			same++
			continue
		}
		i := 0
		for i < min(len(a), len(b)) && a[i] == b[i] {
			i++
		}
		t.Logf("seed %d differs at line %d of %d:\n%s\nor\n%s", seed, i, len(a),
			strings.Join(a[max(0, i-3):min(i+2, len(a))], "\n"), strings.Join(b[max(0, i-3):min(i+2, len(b))], "\n"))
	}
	if same < int(seeds)/4 {
		t.Errorf("hardly any seed repeats itself: something draws from outside the seed")
	}
	t.Logf("%d of %d seeds repeat themselves", same, seeds)
}
