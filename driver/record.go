package driver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Record is the record in one register: of an election, or of a member.
type Record struct {
	Name     string        // the register
	Rev      string        // its revision, opaque; empty if it was never written
	Holder   Identity      // who holds it; zero if vacant
	Addr     string        // where the holder can be reached
	Epoch    uint64        // the number of the term, or of the incarnation; never falls
	Nonce    uint64        // the write attempt that made this record the holder's, or vacant
	Edits    uint64        // how often somebody has edited the record since, without a heartbeat
	Duration time.Duration // how long the record counts without a change
	Via      string        // the heartbeat register that keeps it alive; empty for itself
	Next     string        // held: asked to hand over to; vacant: reserved for
	Paused   bool          // nobody may claim it
	Since    time.Time     // when the term began, by the holder's wall clock: for people, never compared
	Data     []byte        // an election's checkpoint, or what a member says of itself
	Past     []Past        // the last terms, oldest first
}

// Identity is one run of one member.
type Identity struct {
	ID          string // chosen by the user, stable over restarts
	Incarnation string // random, never reused
}

func (i Identity) String() string {
	if i.ID == "" {
		return "nobody"
	}
	return i.ID + "/" + i.Incarnation
}

// Past is a term that has ended.
type Past struct {
	Epoch  uint64    `json:"epoch"`
	Holder string    `json:"holder"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Reason string    `json:"reason"`
}

const (
	// MaxData is the largest checkpoint in bytes.
	MaxData = 64 << 10
	// MaxPast is how many ended terms a record keeps.
	MaxPast = 32
)

// Vacant reports whether nobody holds the record.
func (l Record) Vacant() bool { return l.Holder == Identity{} }

// Notable reports whether replacing old by l is worth a wake-up: everything is, except a renewal or a saved checkpoint.
func (l Record) Notable(old Record) bool {
	return l.Holder != old.Holder || l.Epoch != old.Epoch || l.Next != old.Next || l.Paused != old.Paused
}

// AppendJSON appends the record, without Name and Rev, as one line of JSON. It is the form in which drivers keep it, written by
// hand because a renewal writes one and should cost no more than the write.
func (l Record) AppendJSON(b []byte) []byte {
	b = append(b, `{"epoch":`...)
	b = strconv.AppendUint(b, l.Epoch, 10)
	b = append(b, `,"nonce":"`...)
	b = strconv.AppendUint(b, l.Nonce, 16)
	b = append(b, `","duration":"`...)
	b = append(b, l.Duration.String()...)
	b = append(b, '"')
	b = appendField(b, "holder", l.Holder.ID)
	b = appendField(b, "incarnation", l.Holder.Incarnation)
	b = appendField(b, "addr", l.Addr)
	b = appendField(b, "via", l.Via)
	b = appendField(b, "next", l.Next)
	if l.Edits > 0 {
		b = append(b, `,"edits":`...)
		b = strconv.AppendUint(b, l.Edits, 10)
	}
	if l.Paused {
		b = append(b, `,"paused":true`...)
	}
	if !l.Since.IsZero() {
		b = append(b, `,"since":"`...)
		b = l.Since.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if len(l.Data) > 0 {
		b = append(b, `,"data":"`...)
		b = base64.StdEncoding.AppendEncode(b, l.Data)
		b = append(b, '"')
	}
	if len(l.Past) > 0 {
		b = append(b, `,"past":[`...)
		for i, p := range l.Past {
			if i > 0 {
				b = append(b, ',')
			}
			b = p.appendJSON(b)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func (p Past) appendJSON(b []byte) []byte {
	b = append(b, `{"epoch":`...)
	b = strconv.AppendUint(b, p.Epoch, 10)
	b = appendField(b, "holder", p.Holder)
	b = append(b, `,"began":"`...)
	b = p.Began.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","ended":"`...)
	b = p.Ended.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = appendField(b, "reason", p.Reason)
	return append(b, '}')
}

func appendField(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

// appendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD, as encoding/json has it.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
	}
	return append(b, '"')
}

// ParseRecord reads what AppendJSON wrote. Name and Rev are the driver's to add.
func ParseRecord(name, rev string, b []byte) (Record, error) {
	if l, ok := scanRecord(b); ok {
		l.Name, l.Rev = name, rev
		return l, nil
	}
	var j struct {
		Epoch       uint64    `json:"epoch"`
		Nonce       string    `json:"nonce"`
		Duration    string    `json:"duration"`
		Holder      string    `json:"holder"`
		Incarnation string    `json:"incarnation"`
		Addr        string    `json:"addr"`
		Via         string    `json:"via"`
		Next        string    `json:"next"`
		Edits       uint64    `json:"edits"`
		Paused      bool      `json:"paused"`
		Since       time.Time `json:"since"`
		Data        []byte    `json:"data"`
		Past        []Past    `json:"past"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return Record{}, fmt.Errorf("parse record of %q: %w", name, err)
	}
	nonce, err := strconv.ParseUint(j.Nonce, 16, 64)
	if err != nil {
		return Record{}, fmt.Errorf("parse nonce of %q: %w", name, err)
	}
	d, err := time.ParseDuration(j.Duration)
	if err != nil {
		return Record{}, fmt.Errorf("parse duration of %q: %w", name, err)
	}
	if d < 0 {
		return Record{}, fmt.Errorf("parse duration of %q: %v is negative", name, d)
	}
	return Record{
		Name: name, Rev: rev, Holder: Identity{j.Holder, j.Incarnation}, Addr: j.Addr, Epoch: j.Epoch, Nonce: nonce,
		Duration: d, Via: j.Via, Next: j.Next, Edits: j.Edits, Paused: j.Paused, Since: j.Since, Data: j.Data, Past: j.Past,
	}, nil
}
