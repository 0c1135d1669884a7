package sqlite

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// revisions generates revisions that are never used twice, for any register: not after a restart, not after the whole
// file was removed, and not after an older copy was restored, when a counter in the file would start again. A revision
// is a random number of the Store and a time that increases with every revision.
type revisions struct {
	store string
	last  int64
}

func newRevisions() revisions { return revisions{store: strconv.FormatUint(rand.Uint64(), 36)} }

// next returns a revision, and its time in microseconds. The colon keeps SQLite from converting a revision to a number.
func (r *revisions) next(now time.Time) (string, int64) {
	r.last = max(r.last+1, now.UnixMicro())

	var buf [32]byte
	b := append(buf[:0], r.store...)
	b = append(b, ':')
	b = strconv.AppendInt(b, r.last, 36)
	return string(b), r.last
}
