package driver

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// This file is the short form of the terms that have ended. All of them travel with every write of an election, so a
// term takes about seven bytes: members and reasons are written once, epochs and times as what they differ from the
// ones before.
//
//	terms  = { [ 0 jump ] head [ text ] [ reason ] time time } ; began and ended
//	jump   = what the epoch is ahead of the one before, plus one, in arithmetic without a sign
//	head   = 1 + 16 x member + the number of the reason, 0 if a text follows
//	reason = the number of a text, or 0 and a new text
//	member = the number of a text, counted from 1, or 0 and a new text
//	text   = how many bytes it shares with the text before, how many follow, and these
//	time   = 0 if not known, or [ 1 if it is earlier ] 2 + 2 x distance from the time before + unit
//	unit   = 0 for microseconds, 1 for milliseconds
//
// All numbers are unsigned varints. The whole is written in base64 without padding.

// reasonNumbers are the reasons that have a number of their own. Records contain these numbers: they never change.
var reasonNumbers = [16]string{
	1: "shutdown", 2: "returned", 3: "lost lease", 4: "partition", 5: "handoff", 6: "stepped down", 7: "paused",
	8: "unhealthy", 9: "fenced", 10: "panic", 11: "expired", 12: "died", 13: "rejoined", 14: "abandoned",
	15: "forgotten",
}

// exactBelow is the distance in microseconds from which a time is kept to the millisecond only.
const exactBelow = 1 << 20

// pastWriter writes terms that have ended. The values before the present one are its state.
type pastWriter struct {
	b     []byte
	texts [MaxPast]string // those that have a number
	known int             // how many
	last  string          // the last text that was written
	epoch uint64
	at    int64 // in microseconds since 1970
}

// appendPast appends the short form of the terms that have ended, in base64. It allocates nothing if b is long enough.
func appendPast(b []byte, past []Past) []byte {
	begin := len(b)
	w := pastWriter{b: b}
	for i := range past {
		w.term(&past[i])
	}

	end := len(w.b)
	b = base64.RawStdEncoding.AppendEncode(w.b, w.b[begin:])
	return append(b[:begin], b[end:]...)
}

func (w *pastWriter) term(p *Past) {
	if p.Epoch != w.epoch+1 {
		w.number(0)
		w.number(p.Epoch - w.epoch - 1)
	}

	w.epoch = p.Epoch
	reason := slices.Index(reasonNumbers[1:], p.Reason) + 1
	member := w.find(p.Holder)
	w.number(1 + uint64(member)<<4 + uint64(reason))
	if member == 0 {
		w.text(p.Holder)
	}

	if reason == 0 {
		other := w.find(p.Reason)
		w.number(uint64(other))
		if other == 0 {
			w.text(p.Reason)
		}
	}

	w.time(p.Began)
	w.time(p.Ended)
}

// find returns the number of a text, or 0.
func (w *pastWriter) find(s string) int { return slices.Index(w.texts[:w.known], s) + 1 }

func (w *pastWriter) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *pastWriter) text(s string) {
	shared := 0
	for shared < min(len(s), len(w.last)) && s[shared] == w.last[shared] {
		shared++
	}

	w.number(uint64(shared))
	w.number(uint64(len(s) - shared))
	w.b = append(w.b, s[shared:]...)
	w.last = s
	if w.known < len(w.texts) {
		w.texts[w.known] = s
		w.known++
	}
}

// time writes a time. Milliseconds are cut off, not rounded: so no term seems to begin before the one before has ended.
func (w *pastWriter) time(t time.Time) {
	if s := t.Unix(); t.IsZero() || s < firstMicro/1_000_000 || s > lastMicro/1_000_000 {
		w.number(0)
		return
	}

	distance := t.UnixMicro() - w.at
	sign := int64(1)
	if distance < 0 {
		sign = -1
		distance = -distance
		w.number(1)
	}

	if distance < exactBelow || w.at == 0 { // nothing is cut off the first time
		w.number(2 + uint64(distance)<<1)
	} else {
		distance -= distance % 1000
		w.number(2 + uint64(distance/1000)<<1 + 1)
	}

	w.at += sign * distance
}

// errPast says that the terms of a record are not in the form in which appendPast writes them.
var errPast = errors.New("the terms that have ended are not in a form that this version knows")

// pastReader reads what pastWriter has written.
type pastReader struct {
	b      []byte
	texts  [MaxPast]string
	known  uint64
	last   string
	epoch  uint64
	at     int64
	failed bool
}

// parsePast parses what appendPast has written.
func parsePast(text []byte) ([]Past, error) {
	b, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) == 0 {
		return nil, errPast
	}

	r := pastReader{b: b}
	past := make([]Past, 0, MaxPast)
	for len(r.b) > 0 && !r.failed {
		past = append(past, r.term())
	}

	if r.failed {
		return nil, errPast
	}

	return past, nil
}

func (r *pastReader) term() (p Past) {
	r.epoch++
	head := r.number()
	if head == 0 {
		r.epoch += r.number()
		head = r.number()
	}

	if head == 0 {
		r.failed = true
		return p
	}

	head--
	p.Epoch = r.epoch
	p.Holder = r.text(head >> 4)
	p.Reason = reasonNumbers[head&15]
	if head&15 == 0 {
		p.Reason = r.text(r.number())
	}

	p.Began = r.time()
	p.Ended = r.time()
	return p
}

func (r *pastReader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.failed = true
		r.b = nil
		return 0
	}

	r.b = r.b[size:]
	return n
}

// text returns a text by its number, or the new one that follows if the number is 0.
func (r *pastReader) text(number uint64) string {
	if number > r.known {
		r.failed = true
		return ""
	}
	if number > 0 {
		return r.texts[number-1]
	}

	shared := r.number()
	size := r.number()
	if shared > uint64(len(r.last)) || size > uint64(len(r.b)) {
		r.failed = true
		return ""
	}

	s := r.last[:shared] + string(r.b[:size])
	r.b = r.b[size:]
	r.last = s
	if r.known < MaxPast {
		r.texts[r.known] = s
		r.known++
	}

	return s
}

func (r *pastReader) time() time.Time {
	n := r.number()
	if n == 0 {
		return time.Time{}
	}

	sign := int64(1)
	if n == 1 {
		sign = -1
		n = r.number()
	}

	if n < 2 {
		r.failed = true
		return time.Time{}
	}

	n -= 2
	distance := n >> 1
	if n&1 == 1 {
		distance *= 1000
	}

	if n >= span || distance >= span {
		r.failed = true
		return time.Time{}
	}

	r.at += sign * int64(distance)
	if r.at < firstMicro || r.at > lastMicro {
		r.failed = true
		return time.Time{}
	}

	return time.UnixMicro(r.at).UTC()
}

// The times that a record can contain are those of the years 0 to 9999.
const (
	firstMicro = -62_167_219_200_000_000
	lastMicro  = 253_402_300_799_999_999
	span       = 2 * (lastMicro - firstMicro)
)
