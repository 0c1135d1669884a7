package elections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	maxElections = 100_000 // how many elections a list holds
	maxHistories = 10_000  // up to how many elections it holds their terms that have ended
)

// Lister lists the elections of a store. It has to be kept from one list to the next, because it counts the leases. It
// is for use by one goroutine at a time.
type Lister struct {
	Store driver.Store
	Rank  regent.Rank // by which candidates are ordered

	beats  map[string]heartbeat // by register; those of the last list
	listed time.Time            // when the last list was sent
}

// List is what one list has found.
type List struct {
	rank       regent.Rank
	sent       time.Time
	took       time.Duration
	total      int
	unreadable []string
	elections  []driver.Record // by name, without their checkpoints
	beats      map[string]heartbeat
	proved     map[string]bool  // heartbeat registers that were read after the elections which name them
	members    []member         // the best first
	named      map[string][]int // members that name an election
	everywhere []int            // members that name too many elections to list them
}

// List reads the whole store, once. Then it reads those heartbeat registers again that do not show the holder of an
// election.
func (l *Lister) List(ctx context.Context) (*List, error) {
	s := &List{rank: cmp.Or(l.Rank, regent.RankFirst), sent: time.Now(), named: map[string][]int{}}
	heartbeats, err := l.read(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("list elections: %w", err)
	}

	if err := l.readAgain(ctx, s, heartbeats); err != nil {
		return nil, fmt.Errorf("list elections: %w", err)
	}

	received := time.Now()
	s.took = received.Sub(s.sent)
	l.take(heartbeats, s.sent, received)
	s.beats = l.beats

	slices.SortFunc(s.elections, func(a, b driver.Record) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(s.unreadable)
	s.enroll(heartbeats)
	return s, nil
}

// read reads the store. It returns the registers that are rewritten at every heartbeat.
func (l *Lister) read(ctx context.Context, s *List) (heartbeats map[string]driver.Record, err error) {
	heartbeats = map[string]driver.Record{}
	for r, err := range l.Store.List(ctx, "") {
		switch {
		case err != nil && r.Name == "":
			return nil, err
		case err != nil:
			s.unreadable = append(s.unreadable, r.Name)
		case strings.HasPrefix(r.Name, driver.MemberPrefix):
			heartbeats[r.Name] = r
		case strings.HasPrefix(r.Name, driver.Reserved):
		default:
			s.total++
			if len(s.elections) < maxElections {
				r.Data = nil
				s.elections = append(s.elections, r)
				if r.Via == "" && !r.Vacant() {
					heartbeats[r.Name] = r
				}
			}
		}
	}

	if s.total > maxHistories {
		for i := range s.elections {
			s.elections[i].Past = lastOf(s.elections[i].Past)
		}
	}

	return heartbeats, ctx.Err()
}

// lastOf returns a copy of the last term alone.
func lastOf(past []driver.Past) []driver.Past {
	if len(past) == 0 {
		return nil
	}

	return []driver.Past{past[len(past)-1]}
}

// readAgain reads the heartbeat registers that do not show the holder of an election. A list is no snapshot: it may
// have shown such a register as it was before the holder joined. Only a read that was sent after the record was
// received proves that the holder has ended.
func (l *Lister) readAgain(ctx context.Context, s *List, heartbeats map[string]driver.Record) error {
	s.proved = map[string]bool{}
	var known []driver.Record
	for _, e := range s.elections {
		r := heartbeats[e.Via]
		if e.Vacant() || e.Via == "" || r.Holder == e.Holder || s.proved[e.Via] {
			continue
		}

		s.proved[e.Via] = true
		r.Name = e.Via
		known = append(known, r)
	}

	for i, o := range l.refresh(ctx, known) {
		name := known[i].Name
		switch {
		case o.Err == nil:
			heartbeats[name] = o.Record
		case errors.Is(o.Err, driver.ErrNotFound):
			delete(heartbeats, name)
		default:
			delete(s.proved, name)
		}
	}

	return ctx.Err()
}

// refresh reads registers, in one request if the store can.
func (l *Lister) refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	if len(known) == 0 {
		return nil
	}

	if refresher, ok := l.Store.(driver.Refresher); ok {
		return refresher.Refresh(ctx, known)
	}

	out := make([]driver.Outcome, len(known))
	for i, r := range known {
		out[i].Record, out[i].Err = l.Store.Get(ctx, r.Name)
	}

	return out
}
