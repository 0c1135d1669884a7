package sqlite

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// revisions makes revisions that never come twice, for any register: not after a restart, not after
// somebody has removed the whole file, and not after an older copy of it was restored, when a
// number that is kept in the file would begin again. Each is of a random number of its Store and of
// a time that grows with every one.
type revisions struct {
	store string
	last  int64
}

func newRevisions() revisions { return revisions{store: strconv.FormatUint(rand.Uint64(), 36)} }

// next returns a revision, and its time in microseconds. The colon keeps SQLite from taking one for
// a number.
func (r *revisions) next(now time.Time) (string, int64) {
	r.last = max(r.last+1, now.UnixMicro())

	var buf [32]byte
	b := append(buf[:0], r.store...)
	b = append(b, ':')
	b = strconv.AppendInt(b, r.last, 36)
	return string(b), r.last
}
