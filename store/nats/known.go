package nats

import "sync"

// known holds the revisions that this store has seen since it last had a reason to doubt that the stream is the one
// that it was.
//
// The server compares sequence numbers alone. After a backup was restored, a register may have a sequence number again
// that it had before, with another record. So a swap on a revision that is not known here first reads the register, and
// compares the stamp too. In a quiet time every revision is known, because the store has read or written it.
type known struct {
	mu      sync.Mutex
	revs    map[string]string // by name
	highest uint64            // sequence number
}

// add notes the revision of a register. An answer that comes late does not replace a newer one.
func (k *known) add(name, rev string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.revs == nil {
		k.revs = map[string]string{}
	}
	if sequenceOf(k.revs[name]) <= sequenceOf(rev) {
		k.revs[name] = rev
	}
	k.highest = max(k.highest, sequenceOf(rev))
}

// has reports whether a revision is the last one that was seen of a register.
func (k *known) has(name, rev string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return rev != "" && k.revs[name] == rev
}

// remove forgets a register.
func (k *known) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.revs, name)
}

// before returns the highest sequence number that was seen, to be passed to after.
func (k *known) before() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.highest
}

// after takes in the sequence number of a message that was stored later than everything before it, and reports whether
// it is smaller: then the stream has gone back, and nothing is known any more.
func (k *known) after(before, sequence uint64) (goneBack bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sequence > before {
		k.highest = max(k.highest, sequence)
		return false
	}
	clear(k.revs)
	k.highest = sequence
	return true
}

// forget forgets every revision: the connection was lost, or the stream may be another one.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.revs)
}
