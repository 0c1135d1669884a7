package compare

import (
	"math"
	"testing"
	"time"
)

func TestSample(t *testing.T) {
	var hundred sample
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}

	for p, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := hundred.at(p); got != want*time.Millisecond {
			t.Errorf("percentile %d of 1 to 100 ms is %v", p, got)
		}
	}

	if hundred[0] != 100*time.Millisecond {
		t.Error("a sample is not sorted in place")
	}
	if got := (sample{time.Millisecond, 3 * time.Millisecond}).ms(50, 99); got[0] != 1 || got[1] != 3 {
		t.Errorf("of two: %v", got)
	}
	if got := hundred.us(100); got[0] != 100_000 {
		t.Errorf("in µs: %v", got)
	}

	if got := ratio(hundred, sample{20 * time.Millisecond}, 50); got != 2.5 {
		t.Errorf("ratio: %v", got)
	}

	for _, got := range append(sample{}.ms(50), ratio(nil, hundred, 50)) {
		if !math.IsNaN(float64(got)) {
			t.Errorf("of nothing: %v", got)
		}
	}
}
