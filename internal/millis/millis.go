// Package millis converts durations to milliseconds, the unit of all durations in JSON.
package millis

import "time"

// Of returns a duration as a number of milliseconds.
func Of(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Duration returns the duration of a number of milliseconds, to the nearest nanosecond.
func Duration(ms float64) time.Duration {
	return time.Duration(ms*float64(time.Millisecond) + 0.5)
}

// Unix returns a time as a number of whole milliseconds since 1970.
func Unix(t time.Time) float64 { return float64(t.UnixMilli()) }
