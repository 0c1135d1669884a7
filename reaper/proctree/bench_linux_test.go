package proctree

import "testing"

// BenchmarkScan is one scan of all processes of the host, on which the time to end a dead leader's command depends.
func BenchmarkScan(b *testing.B) {
	n := 0
	for b.Loop() {
		all, err := processes()
		if err != nil {
			b.Fatal(err)
		}
		n = len(all)
	}

	b.ReportMetric(float64(n), "processes")
}
