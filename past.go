package regent

import (
	"time"

	"github.com/regentd/regent/driver"
)

// pastWith returns the record's past with its current term added, at most driver.MaxPast terms long, in a slice of its own.
func pastWith(l driver.Record, at time.Time, reason string) []driver.Past {
	keep := l.Past
	if len(keep) >= driver.MaxPast {
		keep = keep[len(keep)-driver.MaxPast+1:]
	}
	past := make([]driver.Past, len(keep), len(keep)+1)
	copy(past, keep)
	return append(past, driver.Past{Epoch: l.Epoch, Holder: l.Holder.ID, Began: l.Since, Ended: at, Reason: reason})
}

// vacated returns the record as its holder or a revoker leaves it. Epoch, Data, Past and Paused outlive every term.
func vacated(l driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	return driver.Record{
		Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: nonce, Duration: l.Duration,
		Paused: l.Paused, Data: l.Data, Past: pastWith(l, at, reason),
	}
}

// vacatedHeartbeat returns a heartbeat register as its holder or a revoker leaves it. It carries the end of that
// incarnation alone, so that it stays small, and so that whoever takes over knows why it ended.
func vacatedHeartbeat(l driver.Record, nonce uint64, at time.Time, reason string) driver.Record {
	next := vacated(l, nonce, at, reason)
	next.Past = next.Past[len(next.Past)-1:]
	next.Data = nil
	return next
}
