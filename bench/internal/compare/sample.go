package compare

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sample is a list of measured durations.
type sample []time.Duration

// at returns the smallest duration that at least p percent of the sample do not exceed.
func (s sample) at(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// ms returns percentiles in milliseconds; none of an empty sample.
func (s sample) ms(ps ...int) []number { return s.in(time.Millisecond, ps) }

func (s sample) us(ps ...int) []number { return s.in(time.Microsecond, ps) }

func (s sample) in(unit time.Duration, ps []int) []number {
	all := make([]number, len(ps))
	for i, p := range ps {
		if all[i] = none; len(s) > 0 {
			all[i] = number(s.at(p)) / number(unit)
		}
	}

	return all
}

// ratio is that of two samples at a percentile.
func ratio(a, b sample, p int) number {
	if len(a) == 0 || len(b) == 0 {
		return none
	}
	return round(number(a.at(p))/number(b.at(p)), 2)
}

func round(n number, digits int) number {
	scale := math.Pow10(digits)
	return number(math.Round(float64(n)*scale) / scale)
}

// pause waits for a random time between two, so that those who poll are met at any moment between their polls.
func pause(ctx context.Context, least, most time.Duration) error {
	t := time.NewTimer(least + rand.N(most-least))
	defer t.Stop()

	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
