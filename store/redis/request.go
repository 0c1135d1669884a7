package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// expires reports whether the election's key must expire. A member's register keeps itself alive as well, but the other
// members decide whether a member is gone, by their own clocks and after the takeover delay. So no clock of a server
// can end all members at once.
func expires(l driver.Record) bool {
	return !l.Vacant() && l.Via == "" && l.Duration > 0 && !strings.HasPrefix(l.Name, memberPrefix)
}

var memberPrefix = driver.MemberRegister("")

// request is one call of a script. All its strings are parts of buf, so that a renewal does not allocate each of them.
type request struct {
	buf  []byte
	keys []string
	args []string
	rev  string // the new revision of a swap: the only string that is used after the request
}

// maxBuffer is the size of the largest buffer that is used again.
const maxBuffer = 16 << 10

func (s *Store) newRequest() *request {
	r, _ := s.buffers.Get().(*request)
	if r == nil {
		r = &request{buf: make([]byte, 0, 1024), keys: make([]string, 0, 3), args: make([]string, 0, 7)}
	}
	r.buf = r.buf[:0]
	r.keys = r.keys[:0]
	r.args = r.args[:0]
	return r
}

// recycleSent makes a request available again, unless the client may still have to send it.
func (s *Store) recycleSent(r *request, res rueidis.RedisResult) {
	if res.NonRedisError() == nil {
		s.recycle(r)
	}
}

// recycle makes a request available again.
func (s *Store) recycle(r *request) {
	if cap(r.buf) <= maxBuffer {
		clear(r.args[:cap(r.args)])
		s.buffers.Put(r)
	}
}

// appendKey appends the key of an election.
func (s *Store) appendKey(b []byte, name string) []byte {
	b = append(b, s.addr.prefix...)
	if !strings.ContainsAny(name, "{}%") {
		return append(b, name...)
	}

	for i := range len(name) {
		switch c := name[i]; c {
		case '{', '}', '%':
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		default:
			b = append(b, c)
		}
	}

	return b
}

// addKeys adds the keys of a register: {NAME}:regent contains the election's key.
func (s *Store) addKeys(r *request, name string) int {
	r.buf = append(s.appendKey(append(r.buf, '{'), name), "}:regent"...)
	return len(r.buf)
}

func (r *request) setKeys(n int) {
	all := rueidis.BinaryString(r.buf[:n])
	r.keys = append(r.keys, all[1:n-len("}:regent")], all)
}

func (s *Store) getRequest(name string) *request {
	r := s.newRequest()
	r.setKeys(s.addKeys(r, name))
	return r
}

// swapRequest returns a call of swap.lua. With publish, a vacant record of an election is published with its change.
// Registers that Regent uses itself are not published: nobody waits for them, and they may hold secrets.
func (s *Store) swapRequest(l driver.Record, publish bool) *request {
	expected, _, foreign := strings.Cut(l.Rev, "~")
	if foreign && l.Holder.Incarnation == foreignIncarnation {
		l = vacant(l) // an edit, while somebody without Regent holds the election
	}

	l.Nonce = s.writtenNonce(expected, l)
	r := s.newRequest()
	n := s.addKeys(r, l.Name)
	var ends [6]int
	ends[0] = n
	r.buf = s.appendRev(r.buf, l.Nonce)

	publish = publish && l.Vacant() && !strings.HasPrefix(l.Name, "regent/")
	if publish {
		r.buf = append(r.buf, make([]byte, digestLen)...)
	}

	ends[1] = len(r.buf)
	if expires(l) {
		r.buf = s.appendExpiry(r.buf, expected, l)
	} else if publish {
		r.buf = append(r.buf, "publish"...)
	}

	ends[2] = len(r.buf)
	r.buf = appendHolder(r.buf, l)
	ends[3] = len(r.buf)
	r.buf = appendNote(r.buf, l)
	ends[4] = len(r.buf)
	r.buf = l.AppendJSON(r.buf)
	ends[5] = len(r.buf)
	if publish {
		appendDigest(r.buf[:ends[1]-digestLen], r.buf[ends[4]:])
	}

	r.setKeys(n)
	r.rev = string(r.buf[ends[0]:ends[1]])
	all := rueidis.BinaryString(r.buf)
	r.args = append(r.args, expected)
	for i := range 5 {
		r.args = append(r.args, all[ends[i]:ends[i+1]])
	}

	if expected == "" && !s.cluster {
		r.keys, r.args = append(r.keys, s.index), append(r.args, l.Name)
	}
	return r
}

// appendExpiry appends when the election's key expires, for swap.lua: negative for an edit.
func (s *Store) appendExpiry(b []byte, expected string, l driver.Record) []byte {
	if replaces(expected, l.Nonce) {
		b = append(b, '-')
	} else {
		s.noteClaim(l)
	}
	return strconv.AppendInt(b, int64((l.Duration+time.Millisecond-1)/time.Millisecond), 10)
}

// appendHolder appends the value of the election's key: the holder, or nothing.
func appendHolder(b []byte, l driver.Record) []byte {
	if l.Vacant() {
		return b
	}

	begin := len(b)
	b = append(b, l.Holder.ID...)
	b = append(b, '/')
	b = append(b, l.Holder.Incarnation...)
	oneLine(b[begin:])
	return b
}

// appendNote appends the fields, besides the holder, of which a change is published.
func appendNote(b []byte, l driver.Record) []byte {
	begin := len(b)
	b = strconv.AppendUint(b, l.Epoch, 10)
	if l.Paused {
		b = append(b, " paused"...)
	}
	if l.Next != "" {
		b = append(b, " next "...)
		b = append(b, l.Next...)
	}
	oneLine(b[begin:])
	return b
}

// oneLine replaces line breaks, because the text is one line of the register. It is only compared.
func oneLine(b []byte) {
	for i, c := range b {
		if c == '\n' {
			b[i] = ' '
		}
	}
}

// appendRev appends a new revision: the nonce of the record, the ID of this Store, and a counter. So no revision is
// used twice, even if the server goes back to an older state (flushed, restored, failed over).
func (s *Store) appendRev(b []byte, nonce uint64) []byte {
	b = append(strconv.AppendUint(b, nonce, 16), '.')
	b = append(strconv.AppendUint(b, s.id, 36), '.')
	return strconv.AppendUint(b, s.swaps.Add(1), 36)
}

// digestLen is the length of what appendDigest appends.
const digestLen = 1 + 32

// appendDigest appends a digest of the record to its revision, if the record is published. A swap on such a revision
// succeeds only while the register holds exactly that record, so a forged message gains nothing.
func appendDigest(b, record []byte) []byte {
	sum := sha256.Sum256(record)
	return hex.AppendEncode(append(b, '-'), sum[:(digestLen-1)/2])
}

// replaces reports whether the record at a revision has this nonce: a swap that keeps it is an edit.
func replaces(rev string, nonce uint64) bool {
	var hex [17]byte
	return strings.HasPrefix(rev, rueidis.BinaryString(append(strconv.AppendUint(hex[:0], nonce, 16), '.')))
}
