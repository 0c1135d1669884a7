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
	"github.com/regentd/regent/driver"
)

// listPage is how many records List reads in one request.
const listPage = 256

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	r := s.getRequest(name)
	res := s.eval(ctx, s.get, r)

	// A read may be sent again. It needs a new request, because the client may still hold the first one.
	if connectionLost(ctx, res) {
		r = s.getRequest(name)
		res = s.eval(ctx, s.get, r)
	}

	msg, err := res.ToMessage()
	l, err := s.parseRecord(name, msg, err)
	if err == nil && s.addr.replicas > 0 {
		err = s.confirm(ctx, name, r)
	}

	s.recycleSent(r, res)
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, s.explainRead(ctx, err))
	}

	return l, nil
}

func connectionLost(ctx context.Context, res rueidis.RedisResult) bool {
	err := res.NonRedisError()
	return err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrClosed)
}

func (s *Store) explainRead(ctx context.Context, err error) error {
	if errors.Is(err, driver.ErrNotFound) {
		return err
	}
	return s.explain(ctx, err)
}

// marks are the characters that start what get.lua adds to a revision.
const marks = "!~@"

// foreignIncarnation is the incarnation of a holder that does not use Regent.
const foreignIncarnation = "foreign"

// foreignLease is the lease duration of such a holder: so long that no observer sees it expire. Redis expires the key,
// which then shows as a vacant election. The remaining time would not do: it differs with every read, and an observer
// would count it from the read.
const foreignLease = 10 * 365 * 24 * time.Hour

// parseRecord returns the record in an answer of get.lua.
func (s *Store) parseRecord(name string, msg rueidis.RedisMessage, err error) (driver.Record, error) {
	var all []rueidis.RedisMessage
	if err == nil {
		all, err = msg.ToArray()
	}
	if rueidis.IsRedisNil(err) {
		return driver.Record{}, driver.ErrNotFound
	}

	if unreadable(err) && strings.Contains(err.Error(), "NOPERM") {
		return driver.Record{}, &deniedError{err}
	}
	if unreadable(err) {
		return driver.Record{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}

	if err != nil {
		return driver.Record{}, err
	}

	if len(all) < 3 {
		return driver.Record{}, fmt.Errorf("%w: an answer of %d parts", errUnreadable, len(all))
	}

	mark, err1 := all[0].ToString()
	reg, err2 := all[1].ToString()
	left, err3 := all[2].AsInt64()
	if err := errors.Join(err1, err2, err3); err != nil {
		return driver.Record{}, err
	}

	l := driver.Record{Name: name, Rev: mark}
	if reg != "" {
		if l, err = parseRegister(name, reg, mark); err != nil {
			return driver.Record{}, err
		}
	}

	switch {
	case len(all) == 4:
		who, _ := all[3].ToString()
		l = vacant(l)
		l.Holder = driver.Identity{ID: strings.ToValidUTF8(who[:min(len(who), 200)], "?"),
			Incarnation: foreignIncarnation}
		l.Duration = foreignLease
	case mark == "!":
		l = vacant(l)
	case strings.HasPrefix(mark, "@"):
		l.Nonce = s.shownNonce(l)
	}

	s.notifier.noteRead(l, time.Duration(left)*time.Millisecond)
	return l, nil
}

// parseRegister parses the four lines of a register.
func parseRegister(name, reg, mark string) (driver.Record, error) {
	lines := strings.SplitN(reg, "\n", 4)
	if len(lines) < 4 {
		return driver.Record{}, fmt.Errorf("%w: it has %d lines instead of 4", errUnreadable, len(lines))
	}

	rev, _, _ := strings.Cut(lines[0], " ")

	// Nobody else has the answer, so the record need not be copied.
	l, err := driver.ParseRecord(name, rev+mark, unsafe.Slice(unsafe.StringData(lines[3]), len(lines[3])))
	if err != nil {
		return driver.Record{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return l, nil
}

// vacant returns the fields of a record that stay when its holder is gone.
func vacant(l driver.Record) driver.Record {
	return driver.Record{
		Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce, Duration: l.Duration, Paused: l.Paused, Data: l.Data,
		Past: l.Past,
	}
}

// List implements [driver.Store]. It yields in the order of the names' bytes. A name is added to the index before its
// register is written, so a list in pages misses nothing that was there when it began.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for from := "[" + prefix; ; {
			names, err := s.names(ctx, from, prefix)
			if err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
				return
			}

			if !s.yieldPage(ctx, prefix, names, yield) || len(names) < listPage {
				return
			}

			from = "(" + names[len(names)-1]
		}
	}
}

// yieldPage yields the registers of a page, and reports whether the list goes on. A register that cannot be read is
// yielded with its name and its error.
func (s *Store) yieldPage(
	ctx context.Context, prefix string, names []string, yield func(driver.Record, error) bool,
) bool {
	for i, o := range s.readEach(ctx, named(names)) {
		var unreadable *registerError
		switch {
		case o.Err == nil:
			if !yield(o.Record, nil) {
				return false
			}
		case errors.Is(o.Err, driver.ErrNotFound):
		case errors.As(o.Err, &unreadable):
			if !yield(driver.Record{Name: names[i]}, fmt.Errorf("list %q: %w", prefix, o.Err)) {
				return false
			}
		default:
			yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, o.Err))
			return false
		}
	}

	return true
}

// names reads a page of the index. No name has the byte 0xff, so the range is exact, whatever the prefix ends with.
func (s *Store) names(ctx context.Context, from, prefix string) ([]string, error) {
	for again := false; ; again = true {
		s.sent.Add("list")
		res := s.do(ctx, s.client.B().Zrange().Key(s.index).Min(from).Max("("+prefix+"\xff").Bylex().Limit(0,
			listPage).Build())
		if !connectionLost(ctx, res) || again {
			return res.AsStrSlice()
		}
	}
}
