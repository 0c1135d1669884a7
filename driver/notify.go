package driver

import "context"

// Notifier is implemented by a Store that sends notifications. A notification shortens a wait and proves nothing: it
// may be lost, late, early or spurious.
type Notifier interface {
	// Subscribe returns a channel that receives soon after a register that the Interest covers has changed:
	// [Record.Notable] says which changes count. Renewals do not, so an idle store notifies nobody. A register that
	// nobody follows should cost a client nothing, as far as the store can do that. The subscription ends with ctx. The
	// channel is never closed.
	//
	// A register that is added later is followed from then on, or a short time later. If it takes effect later, the
	// driver sends a notification when it does: the register may have changed in between. Neither Subscribe nor a
	// change of the Interest waits for a server.
	//
	// A notification has one of three forms. The zero Record means that any register that is followed may have changed:
	// the driver sends it after every reconnect, because notifications may have been lost before. A Record with a Name
	// and no Rev names the register that has changed, or that is followed from now on. A Record with a Rev is the
	// record as it was written, which saves a standby the read between a release and its claim. If others can forge
	// notifications, a swap on that revision must succeed only while the register shows exactly that record. A
	// notification that finds another one in the channel is merged with it: see [Notify].
	Subscribe(ctx context.Context, to *Interest) <-chan Record
}

// Notify puts a notification into a channel with room for one. If the channel already holds one, Notify merges the two:
// into the name, if both name the same register, otherwise into the zero Record.
func Notify(c chan Record, l Record) {
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
