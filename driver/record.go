package driver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/regentd/regent/internal/jsonscan"
)

// Record is the content of one register: of an election, or of a member.
type Record struct {
	Name     string        // the register
	Rev      string        // its revision, opaque; empty if it was never written
	Holder   Identity      // zero if vacant
	Addr     string        // the holder's address
	Epoch    uint64        // the number of the term, or of the incarnation; it never decreases
	Nonce    uint64        // of the write attempt that made this record the holder's, or vacant
	Edits    uint64        // how often the record was edited since, without a heartbeat
	Duration time.Duration // how long the record is valid without a change
	Via      string        // the heartbeat register that keeps it alive; empty for itself
	Next     string        // held: the member to hand over to; vacant: the member it is reserved for
	Paused   bool          // nobody may claim it
	Since    time.Time     // when the term began, by the holder's wall clock: for display, never compared
	Data     []byte        // an election's checkpoint, or what a member publishes about itself
	Past     []Past        // the last terms, oldest first
}

// Identity is one incarnation of one member.
type Identity struct {
	ID          string // chosen by the user, the same after a restart
	Incarnation string // random, never reused
}

// String returns ID/Incarnation, or "nobody" for the zero value.
func (i Identity) String() string {
	if i.ID == "" {
		return "nobody"
	}
	return i.ID + "/" + i.Incarnation
}

// Past is a term that has ended. A record keeps its times to the microsecond, and to the millisecond where more than a
// second lies between them.
type Past struct {
	Epoch  uint64    `json:"epoch"`
	Holder string    `json:"holder"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Reason string    `json:"reason"`
}

const (
	// MaxData is the size of the largest checkpoint, in bytes.
	MaxData = 64 << 10
	// MaxPast is the number of ended terms that a record keeps.
	MaxPast = 32
)

// Vacant reports whether nobody holds the record.
func (l Record) Vacant() bool { return l.Holder == Identity{} }

// Notable reports whether subscribers are notified when l replaces old: of every change, except a renewal or a saved
// checkpoint.
func (l Record) Notable(old Record) bool {
	return l.Holder != old.Holder || l.Epoch != old.Epoch || l.Next != old.Next || l.Paused != old.Paused
}

// AppendJSON appends the record, without Name and Rev, as one line of JSON. Drivers store this form. It is written by
// hand, because every renewal encodes a record and should cost no more than its write.
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
		b = append(b, `,"terms":"`...)
		b = appendPast(b, l.Past)
		b = append(b, '"')
	}

	return append(b, '}')
}

func appendField(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return jsonscan.AppendString(b, value)
}

// ParseRecord parses what AppendJSON wrote, in this version or an earlier one, and sets Name and Rev.
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
		Terms       *string   `json:"terms"`
		Past        []Past    `json:"past"` // of a version that wrote the terms at length
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

	if j.Terms != nil {
		if j.Past, err = parsePast([]byte(*j.Terms)); err != nil {
			return Record{}, fmt.Errorf("parse terms of %q: %w", name, err)
		}
	}

	return Record{
		Name: name, Rev: rev, Holder: Identity{j.Holder, j.Incarnation}, Addr: j.Addr, Epoch: j.Epoch, Nonce: nonce,
		Duration: d, Via: j.Via, Next: j.Next, Edits: j.Edits, Paused: j.Paused, Since: j.Since, Data: j.Data,
		Past: j.Past,
	}, nil
}
