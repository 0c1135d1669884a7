package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
)

// refreshPage is how many registers Refresh asks for at once. A heartbeat that comes meanwhile
// waits for one page at most, since it uses the same connection.
const refreshPage = 1024

// Refresh implements [regent.Refresher]. It asks for 1,024 registers in one round trip. The server
// compares the revisions, so that of a register which has not changed neither the record nor the
// revision travels back.
func (s *Store) Refresh(ctx context.Context, known []regent.Lease) []regent.Outcome {
	out := make([]regent.Outcome, 0, len(known))
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

// errUnreadable says that a register holds what Regent has not written, or may not be read.
var errUnreadable = errors.New("is no register of Regent")

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
func named(names []string) []regent.Lease {
	ls := make([]regent.Lease, len(names))
	for i, name := range names {
		ls[i].Name = name
	}
	return ls
}

// readEach reads registers in one round trip, each with an outcome of its own. What was lost with a
// connection is asked for once more.
func (s *Store) readEach(ctx context.Context, known []regent.Lease) []regent.Outcome {
	out := make([]regent.Outcome, len(known))
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
		for k, res := range s.evalAll(ctx, s.get, rs) {
			i := asked[k]
			if !again && broken(ctx, res) {
				lost = append(lost, i)
				continue
			}
			out[i].Lease, out[i].Err = s.reread(known[i], res)
			s.done(rs[k], res)
		}
	}
	s.confirmEach(ctx, known, out)
	for i := range out {
		if out[i].Err != nil {
			out[i] = regent.Outcome{Err: s.explainEach(ctx, known[i].Name, out[i].Err)}
		}
	}
	return out
}

// reread makes a record of an answer of get.lua, which is 1 if the register still has the known
// revision.
func (s *Store) reread(known regent.Lease, res rueidis.RedisResult) (regent.Lease, error) {
	if known.Rev != "" {
		if msg, err := res.ToMessage(); err == nil && msg.IsInt64() {
			return known, nil
		}
	}
	return s.read(known.Name, res)
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
func (s *Store) confirmEach(ctx context.Context, known []regent.Lease, out []regent.Outcome) {
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
