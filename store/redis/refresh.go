package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// refreshPage is how many registers Refresh asks for at once. A heartbeat that comes meanwhile
// waits for one page at most, since it uses the same connection.
const refreshPage = 1024

// Refresh implements [driver.Refresher]. It asks for 1,024 registers in one round trip, with one
// call of a script for every 64 of them unless the server is a cluster. The server
// compares the revisions, so that of a register which has not changed neither the record nor the
// revision travels back.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, 0, len(known))
	for len(known) > 0 {
		n := min(len(known), refreshPage)
		out = append(out, s.readEach(ctx, known[:n])...)
		known = known[n:]
	}
	return out
}

// registerError is an error of one register, which says nothing about the others.
type registerError struct{ err error }

func (e *registerError) Error() string { return e.err.Error() }
func (e *registerError) Unwrap() error { return e.err }

// errUnreadable says that a register holds what Regent has not written. A deniedError is one too.
var errUnreadable = errors.New("is no register of Regent")

// deniedError is an errUnreadable of a register that the user may not read: what it holds is not known.
type deniedError struct{ err error }

func (e *deniedError) Error() string {
	return "the user of this store may not read it: " + e.err.Error()
}
func (e *deniedError) Unwrap() error        { return e.err }
func (e *deniedError) Is(target error) bool { return target == errUnreadable }

// unreadable reports whether the server has answered with an error of one register. A server before
// 7.0 puts words of its own before those of the command that failed in a script.
func unreadable(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	for _, part := range []string{"WRONGTYPE", "NOPERM", errUnreadable.Error()} {
		if strings.Contains(answer.Error(), part) {
			return true
		}
	}
	return false
}

// concernsOne reports whether an error is that of one register. In a cluster a failure is always
// that of a node, which has some of the registers.
func (s *Store) concernsOne(ctx context.Context, err error) bool {
	if ctx.Err() != nil || s.closed.Load() {
		return false
	}
	return s.cluster || errors.Is(err, errUnreadable) || errors.Is(err, errUnconfirmed)
}

// named returns leases of which only the name is known.
func named(names []string) []driver.Record {
	ls := make([]driver.Record, len(names))
	for i, name := range names {
		ls[i].Name = name
	}
	return ls
}

// readEach reads registers in one round trip, each with an outcome of its own. What was lost with a
// connection is asked for once more.
func (s *Store) readEach(ctx context.Context, known []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(known))
	lost := make([]int, len(known))
	for i := range lost {
		lost[i] = i
	}
	for again := false; len(lost) > 0; again = true {
		asked := lost
		rs := make([]*request, len(asked))
		for k, i := range asked {
			rs[k] = s.getRequest(known[i].Name)
			if known[i].Rev != "" {
				rs[k].args = append(rs[k].args, known[i].Rev)
			}
		}

		lost = nil
		for k, a := range s.readAll(ctx, rs) {
			i := asked[k]
			if !again && a.broken(ctx) {
				lost = append(lost, i)
				continue
			}
			out[i].Record, out[i].Err = s.reread(known[i], a)
		}
	}
	s.confirmEach(ctx, known, out)
	for i := range out {
		if out[i].Err != nil {
			out[i] = driver.Outcome{Err: s.explainEach(ctx, known[i].Name, out[i].Err)}
		}
	}
	return out
}

// answer is what get.lua says of one register.
type answer struct {
	msg rueidis.RedisMessage
	err error
}

// broken reports whether the connection was found dead: a read may be sent again.
func (a answer) broken(ctx context.Context) bool {
	if a.err == nil || ctx.Err() != nil || errors.Is(a.err, driver.ErrClosed) {
		return false
	}
	_, said := rueidis.IsRedisErr(a.err) // by the server, so that the connection works
	return !said
}

// together is how many registers one call of get.lua reads. The server does nothing else meanwhile.
const together = 64

// readAll reads registers in one round trip. In a cluster each is read by a call of its own, since one call reaches one
// node. Elsewhere a call reads several. Should a call fail, each of its registers is read alone: what the server says of
// one must not hide the others.
func (s *Store) readAll(ctx context.Context, rs []*request) []answer {
	answers := make([]answer, 0, len(rs))
	if s.cluster || len(rs) == 1 {
		for _, res := range s.evalAll(ctx, s.get, rs) {
			msg, err := res.ToMessage()
			answers = append(answers, answer{msg, err})
		}
		return answers
	}

	parts := slices.Collect(slices.Chunk(rs, together))
	calls := make([]*request, len(parts))
	for i, part := range parts {
		calls[i] = joined(part)
	}
	for i, res := range s.evalAll(ctx, s.get, calls) {
		all, err := res.ToArray()
		switch {
		case len(parts[i]) == 1:
			msg, err := res.ToMessage()
			answers = append(answers, answer{msg, err})
		case err == nil && len(all) == len(parts[i]):
			for _, msg := range all {
				answers = append(answers, answer{msg, msg.Error()})
			}
		case err == nil || (answer{err: err}).broken(ctx) || ctx.Err() != nil || s.closed.Load():
			answers = append(answers, slices.Repeat([]answer{{err: cmp.Or(err, errShortAnswer)}}, len(parts[i]))...)
		default:
			for _, res := range s.evalAll(ctx, s.get, parts[i]) {
				msg, err := res.ToMessage()
				answers = append(answers, answer{msg, err})
			}
		}
	}
	return answers
}

var errShortAnswer = fmt.Errorf("%w: the server answered for another number of registers", errUnreadable)

// joined returns one request for all registers of several.
func joined(rs []*request) *request {
	all := &request{}
	for _, r := range rs {
		all.keys = append(all.keys, r.keys...)
		if len(r.args) == 0 {
			all.args = append(all.args, "")
		}
		all.args = append(all.args, r.args...)
	}
	return all
}

// reread makes a record of an answer of get.lua, which is 1 if the register still has the known
// revision.
func (s *Store) reread(known driver.Record, a answer) (driver.Record, error) {
	if known.Rev != "" && a.err == nil && a.msg.IsInt64() {
		return known, nil
	}
	return s.read(known.Name, a.msg, a.err)
}

func (s *Store) explainEach(ctx context.Context, name string, err error) error {
	alone := s.concernsOne(ctx, err)
	err = fmt.Errorf("get %q: %w", name, s.explainRead(ctx, err))
	if alone {
		return &registerError{err}
	}
	return err
}

// maxWaits is how many requests may wait for replicas at once.
const maxWaits = 16

// confirmEach makes sure of every record whose last swap was not confirmed by enough replicas.
func (s *Store) confirmEach(ctx context.Context, known []driver.Record, out []driver.Outcome) {
	if s.addr.replicas == 0 {
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxWaits)
	for i := range out {
		if out[i].Err != nil || !s.isUnsure(known[i].Name) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			out[i].Err = s.confirm(ctx, known[i].Name, s.getRequest(known[i].Name))
			<-slots
		})
	}
	wg.Wait()
}
