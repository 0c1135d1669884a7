package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// Takeovers reports the time from before a release until another member leads, who has waited, beside the time of a raw
// write. Each member has a store of its own. Nothing happens for a while before what is measured.
func Takeovers(b *testing.B, cfg regent.Config, rest time.Duration, open func() driver.Store, raw func(n int)) {
	became := make(chan time.Time, 1)
	member := func(n int) (stop func()) {
		m := &regent.Member{ID: fmt.Sprint("m", n), Store: open(), Config: cfg}
		work := func(ctx context.Context, _ regent.Term) error {
			became <- time.Now()
			<-ctx.Done()
			return nil
		}
		return storetest.RunMember(b, m, regent.Duty{Election: "e", Run: work})
	}
	stop := member(0)
	<-became

	var ours, floor []time.Duration
	for n := 1; b.Loop(); n++ {
		next := member(n)
		<-time.After(rest) // it has joined, and waits
		began := time.Now()
		go stop()
		ours = append(ours, (<-became).Sub(began))
		stop = next

		<-time.After(rest)
		began = time.Now()
		raw(1)
		floor = append(floor, time.Since(began))
	}

	b.ReportMetric(0, "ns/op")
	slices.Sort(ours)
	slices.Sort(floor)
	write := floor[len(floor)/2]
	b.ReportMetric(float64(write.Microseconds()), "raw-p50-µs")
	for name, at := range map[string]int{"least": 0, "p50": len(ours) / 2, "p99": len(ours) * 99 / 100} {
		b.ReportMetric(float64(ours[at].Microseconds()), name+"-µs")
		b.ReportMetric(float64(ours[at])/float64(write), name+"-writes")
	}
}
