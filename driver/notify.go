package driver

import "context"

// Waker is a Store with a push. Hints shorten a wait and prove nothing: one may be lost, late, early or for nothing.
type Waker interface {
	// Wake returns a channel that receives soon after a register below prefix has changed hands: its [Record.Notable] says
	// which changes count. Renewals do not, so that an idle store wakes nobody. Everything behind the channel ends with ctx;
	// the channel itself is never closed.
	//
	// A hint comes in three forms. The zero Record says that anything below prefix may have changed: the driver sends it
	// after every reconnect, since notifications may have been lost before. A Record with a Name and no Rev names the register
	// that has changed. A Record with a Rev is the record as it was written, which saves a standby the read between a release
	// and its claim; where others can forge hints, a swap on that revision must succeed only while the register shows that
	// very record. Hints that come while one is still in the channel are merged with it: see [Hint].
	Wake(ctx context.Context, prefix string) <-chan Record
}

// Hint puts a hint into a channel, for drivers. The channel must have room for one. If it already holds a hint, the two
// become one: the name, if both name the same register, else the zero Record.
func Hint(c chan Record, l Record) {
	for {
		select {
		case c <- l:
			return
		default:
		}
		select {
		case other := <-c:
			if other.Name == l.Name {
				l = Record{Name: l.Name}
			} else {
				l = Record{}
			}
		default:
		}
	}
}
