package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unsafe"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
)

// listPage is how many records List reads at once.
const listPage = 256

// Get implements [regent.Store].
func (s *Store) Get(ctx context.Context, name string) (regent.Lease, error) {
	r := s.getRequest(name)
	res := s.eval(ctx, s.get, r)
	if broken(ctx, res) { // the connection was found dead: a read may be sent again, but the client may still hold what was sent first
		r = s.getRequest(name)
		res = s.eval(ctx, s.get, r)
	}
	l, err := s.read(name, res)
	if err == nil && s.addr.replicas > 0 {
		err = s.confirm(ctx, name, r)
	}
	s.done(r, res)
	if err != nil {
		return regent.Lease{}, fmt.Errorf("get %q: %w", name, s.explainRead(ctx, err))
	}
	return l, nil
}

func broken(ctx context.Context, res rueidis.RedisResult) bool {
	err := res.NonRedisError()
	return err != nil && ctx.Err() == nil && !errors.Is(err, regent.ErrClosed)
}

func (s *Store) explainRead(ctx context.Context, err error) error {
	if errors.Is(err, regent.ErrNotFound) {
		return err
	}
	return s.explain(ctx, err)
}

// foreigner is the incarnation of a holder that does not use Regent.
const foreigner = "foreign"

// forEver is the lease of such a holder: so long that nobody lives to see it run out. Its key runs out by itself, which is then told as a vacant
// seat; what is left of it differs with every look, and would seem to have passed at half time.
const forEver = 10 * 365 * 24 * time.Hour

// read makes a record of the answer of get.lua.
func (s *Store) read(name string, res rueidis.RedisResult) (regent.Lease, error) {
	all, err := res.ToArray()
	if rueidis.IsRedisNil(err) {
		return regent.Lease{}, regent.ErrNotFound
	}
	if err != nil {
		return regent.Lease{}, err
	}
	if len(all) < 3 {
		return regent.Lease{}, fmt.Errorf("register %q: an answer of %d parts", name, len(all))
	}
	mark, err1 := all[0].ToString()
	reg, err2 := all[1].ToString()
	left, err3 := all[2].AsInt64()
	if err := errors.Join(err1, err2, err3); err != nil {
		return regent.Lease{}, err
	}
	l := regent.Lease{Name: name, Rev: mark}
	if reg != "" {
		if l, err = parseRegister(name, reg, mark); err != nil {
			return regent.Lease{}, err
		}
	}
	switch {
	case len(all) == 4:
		who, _ := all[3].ToString()
		l = vacant(l)
		l.Holder = regent.Identity{ID: strings.ToValidUTF8(who[:min(len(who), 200)], "?"), Incarnation: foreigner}
		l.Duration = forEver
	case mark == "!":
		l = vacant(l)
	}
	s.push.read(l, time.Duration(left)*time.Millisecond)
	return l, nil
}

// parseRegister reads the four lines of a register.
func parseRegister(name, reg, mark string) (regent.Lease, error) {
	lines := strings.SplitN(reg, "\n", 4)
	if len(lines) < 4 {
		return regent.Lease{}, fmt.Errorf("register %q has %d lines, it must have 4", name, len(lines))
	}
	rev, _, _ := strings.Cut(lines[0], " ")
	// The answer is nobody else's, so that its record need not be copied.
	return regent.ParseLease(name, rev+mark, unsafe.Slice(unsafe.StringData(lines[3]), len(lines[3])))
}

// vacant returns what outlives a holder.
func vacant(l regent.Lease) regent.Lease {
	return regent.Lease{
		Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce, Duration: l.Duration, Paused: l.Paused, Data: l.Data, Past: l.Past,
	}
}

// List implements [regent.Store]. It yields in the order of the names' bytes. Names are only ever added to the index, before their
// registers, so that a list in pages misses nothing that was there when it began.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[regent.Lease, error] {
	return func(yield func(regent.Lease, error) bool) {
		for from := "[" + prefix; ; {
			names, err := s.names(ctx, from, prefix)
			if err != nil {
				yield(regent.Lease{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
				return
			}
			page, err := s.readAll(ctx, names)
			if err != nil {
				yield(regent.Lease{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
				return
			}
			for _, l := range page {
				if !yield(l, nil) {
					return
				}
			}
			if len(names) < listPage {
				return
			}
			from = "(" + names[len(names)-1]
		}
	}
}

// names reads a page of the index. No name has the byte 0xff, so the range is exact, whatever the prefix ends with.
func (s *Store) names(ctx context.Context, from, prefix string) ([]string, error) {
	for again := false; ; again = true {
		res := s.do(ctx, s.client.B().Zrange().Key(s.index).Min(from).Max("("+prefix+"\xff").Bylex().Limit(0, listPage).Build())
		if !broken(ctx, res) || again {
			return res.AsStrSlice()
		}
	}
}

// readAll reads registers, leaving out those that were never written.
func (s *Store) readAll(ctx context.Context, names []string) ([]regent.Lease, error) {
	if len(names) == 0 {
		return nil, nil
	}
	rs := make([]*request, len(names))
	for i, name := range names {
		rs[i] = s.getRequest(name)
	}
	page := make([]regent.Lease, 0, len(names))
	var failed error
	for i, res := range s.evalAll(ctx, s.get, rs) {
		l, err := s.read(names[i], res)
		if err == nil && s.addr.replicas > 0 {
			err = s.confirm(ctx, names[i], rs[i])
		}
		s.done(rs[i], res)
		switch {
		case err == nil:
			page = append(page, l)
		case !errors.Is(err, regent.ErrNotFound) && failed == nil:
			failed = fmt.Errorf("%q: %w", names[i], err)
		}
	}
	return page, failed
}
