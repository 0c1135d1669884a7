package driver

import "context"

// Waker is implemented by a Store that sends notifications. A notification shortens a wait and proves nothing: it may
// be lost, late, early or spurious.
type Waker interface {
	// Wake returns a channel that receives soon after a register below prefix has changed: [Record.Notable] says which
	// changes count. Renewals do not, so an idle store notifies nobody. The subscription ends with ctx. The channel is
	// never closed.
	//
	// A notification has one of three forms. The zero Record means that anything below prefix may have changed: the
	// driver sends it after every reconnect, because notifications may have been lost before. A Record with a Name and
	// no Rev names the register that has changed. A Record with a Rev is the record as it was written, which saves a
	// standby the read between a release and its claim. If others can forge notifications, a swap on that revision must
	// succeed only while the register shows exactly that record. A notification that finds another one in the channel
	// is merged with it: see [Hint].
	Wake(ctx context.Context, prefix string) <-chan Record
}

// Hint puts a notification into a channel with room for one. If the channel already holds one, Hint merges the two:
// into the name, if both name the same register, otherwise into the zero Record.
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
