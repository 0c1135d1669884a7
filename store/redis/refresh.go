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

// refreshPage is how many registers Refresh reads in one round trip. A heartbeat that comes meanwhile uses the same
// connection, and waits for one page at most.
const refreshPage = 1024

// Refresh implements [driver.Refresher]. It reads 1,024 registers in one round trip, with one call of a script for
// every 64 of them unless the server is a cluster. The server compares the revisions: for an unchanged register it
// sends neither the record nor the revision.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, 0, len(known))
	for len(known) > 0 {
		n := min(len(known), refreshPage)
		out = append(out, s.readEach(ctx, known[:n])...)
		known = known[n:]
	}
	return out
}

// registerError is an error of one register. It says nothing about the others.
type registerError struct{ err error }

func (e *registerError) Error() string { return e.err.Error() }
func (e *registerError) Unwrap() error { return e.err }

// errUnreadable means that a register holds something that Regent has not written. A deniedError is one too.
var errUnreadable = errors.New("is not a register of Regent")

// deniedError is an errUnreadable of a register that the user may not read.
type deniedError struct{ err error }

func (e *deniedError) Error() string {
	return "the user of this store may not read it: " + e.err.Error()
}
func (e *deniedError) Unwrap() error        { return e.err }
func (e *deniedError) Is(target error) bool { return target == errUnreadable }

// unreadable reports whether the server has answered with an error of one register. A server before 7.0 puts a prefix
// before the error of the command that failed in a script.
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

// concernsOne reports whether an error concerns one register. In a cluster a failure is always that of a node, which
// has some of the registers.
func (s *Store) concernsOne(ctx context.Context, err error) bool {
	if ctx.Err() != nil || s.closed.Load() {
		return false
	}
	return s.cluster || errors.Is(err, errUnreadable) || errors.Is(err, errUnconfirmed)
}

// named returns records of which only the name is known.
func named(names []string) []driver.Record {
	ls := make([]driver.Record, len(names))
	for i, name := range names {
		ls[i].Name = name
	}
	return ls
}

// readEach reads registers in one round trip, each with its own outcome. Requests that were lost with a connection are
// sent once more.
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
			if !again && a.connectionLost(ctx) {
				lost = append(lost, i)
				continue
			}
			out[i].Record, out[i].Err = s.parseAnswer(known[i], a)
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

// answer is the answer of get.lua for one register.
type answer struct {
	msg rueidis.RedisMessage
	err error
}

// connectionLost reports whether the connection failed, so that a read may be sent again.
func (a answer) connectionLost(ctx context.Context) bool {
	if a.err == nil || ctx.Err() != nil || errors.Is(a.err, driver.ErrClosed) {
		return false
	}
	_, said := rueidis.IsRedisErr(a.err) // an error of the server means that the connection works
	return !said
}

// registersPerCall is how many registers one call of get.lua reads. The server blocks meanwhile.
const registersPerCall = 64

// readAll reads registers in one round trip. In a cluster each is read by a call of its own, because one call reaches
// one node. Otherwise one call reads several. If a call fails, each of its registers is read alone, so that an error of
// one does not hide the others.
func (s *Store) readAll(ctx context.Context, rs []*request) []answer {
	answers := make([]answer, 0, len(rs))
	if s.cluster || len(rs) == 1 {
		for _, res := range s.evalAll(ctx, s.get, rs) {
			msg, err := res.ToMessage()
			answers = append(answers, answer{msg, err})
		}
		return answers
	}

	parts := slices.Collect(slices.Chunk(rs, registersPerCall))
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
		case err == nil || (answer{err: err}).connectionLost(ctx) || ctx.Err() != nil || s.closed.Load():
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

var errShortAnswer = fmt.Errorf("%w: the server answered for a different number of registers", errUnreadable)

// joined returns one request for the registers of several.
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

// parseAnswer returns the record in an answer of get.lua. The answer is 1 if the register still has the known revision.
func (s *Store) parseAnswer(known driver.Record, a answer) (driver.Record, error) {
	if known.Rev != "" && a.err == nil && a.msg.IsInt64() {
		return known, nil
	}
	return s.parseRecord(known.Name, a.msg, a.err)
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

// confirmEach confirms every record whose last swap was not confirmed by enough replicas.
func (s *Store) confirmEach(ctx context.Context, known []driver.Record, out []driver.Outcome) {
	if s.addr.replicas == 0 {
		return
	}

	var wg sync.WaitGroup
	permits := make(chan struct{}, maxWaits)
	for i := range out {
		if out[i].Err != nil || !s.isUnconfirmed(known[i].Name) {
			continue
		}
		permits <- struct{}{}
		wg.Go(func() {
			out[i].Err = s.confirm(ctx, known[i].Name, s.getRequest(known[i].Name))
			<-permits
		})
	}

	wg.Wait()
}
