//go:build unix

package cores

import (
	"syscall"
	"testing"
	"time"
)

// processorTime reports the processor time of each operation: on a busy machine the time on the clock says little.
func processorTime(b *testing.B) func() {
	before := usage()
	return func() { b.ReportMetric(float64(usage()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}

func usage() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
