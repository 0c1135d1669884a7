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

// expires reports whether the seat's key is to expire. A member's register keeps itself alive as well, but whether a member is gone is for
// the other members to say, by their clocks and after their takeover delay: no clock of a server then ends all of them at once.
func expires(l driver.Record) bool {
	return !l.Vacant() && l.Via == "" && l.Duration > 0 && !strings.HasPrefix(l.Name, memberPrefix)
}

var memberPrefix = driver.MemberRegister("")

// request is one call of a script. All its strings are parts of buf, so that a renewal does not allocate them one by one.
type request struct {
	buf  []byte
	keys []string
	args []string
	rev  string // that a swap writes: the one string that outlives it
}

// maxKept is how large a buffer may be to be used again.
const maxKept = 16 << 10

func (s *Store) newRequest() *request {
	r, _ := s.buffers.Get().(*request)
	if r == nil {
		r = &request{buf: make([]byte, 0, 1024), keys: make([]string, 0, 3), args: make([]string, 0, 7)}
	}
	r.buf, r.keys, r.args = r.buf[:0], r.keys[:0], r.args[:0]
	return r
}

// done gives a request back, unless the client may still have to send it.
func (s *Store) done(r *request, res rueidis.RedisResult) {
	if res.NonRedisError() == nil && cap(r.buf) <= maxKept {
		clear(r.args[:cap(r.args)])
		s.buffers.Put(r)
	}
}

// appendKey appends the key of a seat.
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

// addKeys adds the keys of a register: {seat}:regent holds the seat's key as well.
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

// swapRequest is a call of swap.lua. If tell, an election's record without a holder is published with its change. What Regent keeps for itself is not:
// nobody waits for it, and there may be secrets in it.
func (s *Store) swapRequest(l driver.Record, tell bool) *request {
	expected, _, foreign := strings.Cut(l.Rev, "~")
	if foreign && l.Holder.Incarnation == foreigner {
		l = vacant(l) // an edit, while the seat is in other hands
	}
	l.Nonce = s.writtenNonce(expected, l)
	r := s.newRequest()
	n := s.addKeys(r, l.Name)
	var ends [6]int
	ends[0] = n
	r.buf = s.appendRev(r.buf, l.Nonce)
	if tell = tell && l.Vacant() && !strings.HasPrefix(l.Name, "regent/"); tell {
		r.buf = append(r.buf, make([]byte, digestLen)...)
	}
	ends[1] = len(r.buf)
	if expires(l) {
		if replaces(expected, l.Nonce) {
			r.buf = append(r.buf, '-')
		} else {
			s.claims(l)
		}
		r.buf = strconv.AppendInt(r.buf, int64((l.Duration+time.Millisecond-1)/time.Millisecond), 10)
	} else if tell {
		r.buf = append(r.buf, "tell"...)
	}
	ends[2] = len(r.buf)
	if !l.Vacant() {
		r.buf = append(append(append(r.buf, l.Holder.ID...), '/'), l.Holder.Incarnation...)
		oneLine(r.buf[ends[2]:])
	}
	ends[3] = len(r.buf)
	r.buf = strconv.AppendUint(r.buf, l.Epoch, 10)
	if l.Paused {
		r.buf = append(r.buf, " paused"...)
	}
	if l.Next != "" {
		r.buf = append(append(r.buf, " next "...), l.Next...)
		oneLine(r.buf[ends[3]:])
	}
	ends[4] = len(r.buf)
	r.buf = l.AppendJSON(r.buf)
	ends[5] = len(r.buf)
	if tell {
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

// oneLine makes a line of what is to be one: nothing is read from it but whether it has changed.
func oneLine(b []byte) {
	for i, c := range b {
		if c == '\n' {
			b[i] = ' '
		}
	}
}

// A revision is the nonce of its record, and what no other swap of any client has: which client, and its how manieth. So none comes twice,
// not even when the server comes back with less than it had (flushed, restored, failed over) and goes on from there.
func (s *Store) appendRev(b []byte, nonce uint64) []byte {
	b = append(strconv.AppendUint(b, nonce, 16), '.')
	b = append(strconv.AppendUint(b, s.id, 36), '.')
	return strconv.AppendUint(b, s.swaps.Add(1), 36)
}

// digestLen is the length of what appendDigest appends.
const digestLen = 1 + 32

// appendDigest appends what a revision has in addition if its record is published: a digest of that record. A swap on such a revision succeeds only while the
// register shows the very record, so that nothing is gained by publishing another one.
func appendDigest(b, record []byte) []byte {
	sum := sha256.Sum256(record)
	return hex.AppendEncode(append(b, '-'), sum[:(digestLen-1)/2])
}

// replaces reports whether the record at a revision has this nonce: to write it again is an edit.
func replaces(rev string, nonce uint64) bool {
	var hex [17]byte
	return strings.HasPrefix(rev, rueidis.BinaryString(append(strconv.AppendUint(hex[:0], nonce, 16), '.')))
}
