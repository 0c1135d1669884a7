package nats

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/regentd/regent/driver"
)

// A message is a record as JSON. Its ID (the header Nats-Msg-Id) is the stamp of the write: a number that was never
// used. The stamp serves two purposes:
//
//   - The server stores a message with the same ID once, and says so. So a write may be sent again.
//   - The revision of a register is the sequence number of its message and the stamp: 1763471000000017/1b8cx.4. The
//     server compares sequence numbers alone. It never uses one twice, but a stream that was restored from a backup
//     does. Then the stamp shows that a record is another one: see known.go.

// headerRemoved marks the last message of a register that was removed. The server deletes it a moment later.
const headerRemoved = "Regent-Removed"

// newStamp returns the stamp of a write.
func (s *Store) newStamp() string {
	b := make([]byte, 0, 24)
	b = strconv.AppendUint(b, s.id, 36)
	b = append(b, '.')
	b = strconv.AppendUint(b, s.stamps.Add(1), 36)
	return string(b)
}

var errForeign = errors.New("it is not a record of Regent; restore it, or delete the message if nobody leads")

// stored is the message of a register, as a read or a notification shows it.
type stored struct {
	sequence uint64
	stamp    string
	removed  bool
	data     []byte
}

// parseStored returns what a message of the stream says of itself, or false if it says nothing.
func parseStored(m *nats.Msg) (stored, bool) {
	n, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	return stored{
		sequence: n, stamp: m.Header.Get(nats.MsgIdHdr), removed: m.Header.Get(headerRemoved) != "", data: m.Data,
	}, err == nil
}

func (m stored) revision() string { return revision(m.sequence, m.stamp) }

// decode returns the record of a register.
func (m stored) decode(name string) (driver.Record, error) {
	if m.removed {
		return driver.Record{}, driver.ErrNotFound
	}
	l, err := driver.ParseRecord(name, m.revision(), m.data)
	if err != nil {
		return driver.Record{}, errors.Join(errForeign, err)
	}
	return l, nil
}

// revision returns the revision of a register.
func revision(sequence uint64, stamp string) string {
	return strconv.FormatUint(sequence, 10) + "/" + stamp
}

// sequenceOf returns the sequence number in a revision, or 0 if this package has not made it.
func sequenceOf(rev string) uint64 {
	text, _, _ := strings.Cut(rev, "/")
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}
