package redis

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

var (
	//go:embed server.lua
	serverLua string
	//go:embed get.lua
	getLua string
	//go:embed swap.lua
	swapLua string
)

// script is called by its hash, and sent in full to a server that does not know it.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// luaString writes s as Lua does, byte by byte.
func luaString(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		b = fmt.Appendf(b, "\\%03d", s[i])
	}
	return string(append(b, '"'))
}

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

func (s *Store) command(sc script, r *request, full bool) rueidis.Completed {
	keys := "2"
	if len(r.keys) != 2 {
		keys = strconv.Itoa(len(r.keys))
	}
	if full {
		return s.client.B().Arbitrary("EVAL", sc.text, keys).Keys(r.keys...).Args(r.args...).Build()
	}
	return s.client.B().Arbitrary("EVALSHA", sc.sha, keys).Keys(r.keys...).Args(r.args...).Build()
}

// unknown says that the server did not know a script, and so did not run it.
func unknown(res rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(res.Error())
	return ok && err.IsNoScript()
}

func (s *Store) eval(ctx context.Context, sc script, r *request) rueidis.RedisResult {
	s.count(sc)
	res := s.do(ctx, s.command(sc, r, false))
	if unknown(res) {
		res = s.do(ctx, s.command(sc, r, true))
	}
	return res
}

func (s *Store) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return send(ctx, s, func() rueidis.RedisResult { return s.client.Do(ctx, cmd) }, rueidis.NewErrorResult)
}

func (s *Store) doMulti(ctx context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
	return send(ctx, s, func() []rueidis.RedisResult { return s.client.DoMulti(ctx, cmds...) }, failedAll(len(cmds)))
}

func failedAll(n int) func(error) []rueidis.RedisResult {
	return func(err error) []rueidis.RedisResult {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
	}
}

// evalAll calls a script for each request, in one go.
func (s *Store) evalAll(ctx context.Context, sc script, rs []*request) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(rs))
	for i, r := range rs {
		cmds[i] = s.command(sc, r, false)
	}
	s.count(sc)
	all := s.doMulti(ctx, cmds)
	var again []int
	cmds = cmds[:0]
	for i, res := range all {
		if unknown(res) {
			again, cmds = append(again, i), append(cmds, s.command(sc, rs[i], len(cmds) == 0 || s.cluster))
		}
	}
	if len(again) > 0 {
		for i, res := range s.doMulti(ctx, cmds) {
			all[again[i]] = res
		}
	}
	return all
}

// Swap implements [driver.Store].
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return s.swapOne(ctx, l, true)
}

func (s *Store) swapOne(ctx context.Context, l driver.Record, tell bool) (driver.Record, error) {
	if err := s.addToIndex(ctx, l); err != nil {
		return s.swapped(ctx, l, "", rueidis.NewErrorResult(err))
	}
	r := s.swapRequest(l, tell)
	var res rueidis.RedisResult
	if s.addr.replicas > 0 {
		res = s.evalAndWait(ctx, s.swap, l.Name, r)
	} else {
		res = s.eval(ctx, s.swap, r)
	}
	l, err := s.swapped(ctx, l, r.rev, res)
	s.done(r, res)
	return l, err
}

// SwapAll implements [driver.Batcher]: one round trip. It publishes no records: thousands of them would be more than they save.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(ls))
	if s.addr.replicas > 0 { // each waits for its replicas
		var wg sync.WaitGroup
		slots := make(chan struct{}, maxWaits)
		for i := range ls {
			slots <- struct{}{}
			wg.Go(func() {
				out[i].Record, out[i].Err = s.swapOne(ctx, ls[i], false)
				<-slots
			})
		}
		wg.Wait()
		return out
	}
	if err := s.addToIndex(ctx, ls...); err != nil {
		for i, l := range ls {
			out[i].Record, out[i].Err = s.swapped(ctx, l, "", rueidis.NewErrorResult(err))
		}
		return out
	}
	rs := make([]*request, len(ls))
	for i, l := range ls {
		rs[i] = s.swapRequest(l, false)
	}
	if len(ls) > 0 {
		for i, res := range s.evalAll(ctx, s.swap, rs) {
			out[i].Record, out[i].Err = s.swapped(ctx, ls[i], rs[i].rev, res)
			s.done(rs[i], res)
		}
	}
	return out
}

// swapped makes an outcome of an answer.
func (s *Store) swapped(ctx context.Context, l driver.Record, rev string, res rueidis.RedisResult) (driver.Record, error) {
	switch err := res.Error(); {
	case err == nil:
		l.Rev = rev
		s.push.wrote(l)
		return l, nil
	case rueidis.IsRedisNil(err):
		return driver.Record{}, fmt.Errorf("swap %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	default:
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, s.explain(ctx, err))
	}
}

// reindex is how often a name is written to the index of a cluster while its register is in use: the index has a slot of its own, and a
// failover there may forget a name whose register is still known elsewhere.
const reindex = time.Minute

// maxIndexed bounds what is remembered of it.
const maxIndexed = 1 << 15

// addToIndex sees to it that a name is in the index before its register is. Outside of a cluster the script does that.
func (s *Store) addToIndex(ctx context.Context, ls ...driver.Record) error {
	if !s.cluster {
		return nil
	}
	now := time.Now()
	add := []string{}
	s.mu.Lock()
	for _, l := range ls {
		if at, ok := s.indexed[l.Name]; !ok || l.Rev == "" || now.Sub(at) > reindex {
			add = append(add, "0", l.Name)
		}
	}
	s.mu.Unlock()
	if len(add) == 0 {
		return nil
	}
	if err := s.do(ctx, s.client.B().Arbitrary("ZADD").Keys(s.index).Args(add...).Build()).Error(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.indexed) > maxIndexed {
		clear(s.indexed)
	}
	for i := 1; i < len(add); i += 2 {
		s.indexed[add[i]] = now
	}
	return nil
}
