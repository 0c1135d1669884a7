package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// Store asks a cluster by its store alone. It joins nothing.
type Store struct {
	Address string // for people: without secrets
	Driver  driver.Store
	Config  regent.Config

	lister *elections.Lister
	listed bool
}

var _ Cluster = (*Store)(nil)

// Where implements [Cluster].
func (s *Store) Where() string { return "store " + s.Address }

// Close implements [Cluster].
func (s *Store) Close() error { return s.Driver.Close() }

// member returns a member that has not joined: it reads and edits registers.
func (s *Store) member() *regent.Member {
	return &regent.Member{Store: s.Driver, ID: "regent-cli", Config: s.Config}
}

// Elections implements [Cluster]. The first call observes the heartbeats for two seconds.
func (s *Store) Elections(ctx context.Context) (Elections, error) {
	if s.lister == nil {
		s.lister = &elections.Lister{Store: s.Driver, Rank: s.Config.Rank}
	}
	if !s.listed {
		if _, err := s.lister.List(ctx); err != nil {
			return Elections{}, s.failed(err)
		}

		select {
		case <-time.After(observe):
		case <-ctx.Done():
			return Elections{}, context.Cause(ctx)
		}
		s.listed = true
	}

	list, err := s.lister.List(ctx)
	if err != nil {
		return Elections{}, s.failed(err)
	}

	const all = 1 << 30
	return list.Page(elections.Selection{Limit: all, Candidates: all}), nil
}

// Election implements [Cluster].
func (s *Store) Election(ctx context.Context, name string) (Election, error) {
	all, err := s.Elections(ctx)
	if err != nil {
		return Election{}, err
	}
	return find(all, name)
}

// Record implements [Cluster].
func (s *Store) Record(ctx context.Context, name string) (Record, error) {
	r, err := s.get(ctx, name)
	return Record{Leader: r.Holder.ID, Epoch: r.Epoch, Next: r.Next, Paused: r.Paused, Since: r.Since}, err
}

// get reads the record of an election.
func (s *Store) get(ctx context.Context, name string) (driver.Record, error) {
	r, err := s.Driver.Get(ctx, name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return r, neverHeld(name)
	case err != nil:
		return r, s.failed(err)
	}

	return r, nil
}

// History implements [Cluster].
func (s *Store) History(ctx context.Context, name string) (History, error) {
	r, err := s.get(ctx, name)
	if err != nil {
		return History{}, err
	}

	terms := r.Past
	if terms == nil {
		terms = []driver.Past{}
	}
	return History{name, terms}, nil
}

// Members implements [Cluster]. Which members are alive is observed for two seconds.
func (s *Store) Members(ctx context.Context) (Members, error) {
	roster := s.member().NewRoster()
	if _, err := roster.List(ctx); err != nil {
		return Members{}, s.failed(err)
	}

	select {
	case <-time.After(observe):
	case <-ctx.Done():
		return Members{}, context.Cause(ctx)
	}

	states, err := roster.List(ctx)
	if err != nil {
		return Members{}, s.failed(err)
	}

	return membersOf(states), nil
}

// membersOf returns members as their registers show them.
func membersOf(states []regent.MemberState) Members {
	c := Members{Known: true, Status: health.Unknown, CheckedAt: time.Now().UTC(), Members: []Member{},
		Reasons: []string{"the store alone is asked: no leader has checked the members"}}
	for _, m := range states {
		if m.Incarnation == "" {
			continue
		}

		v := Member{
			ID: m.ID, Addr: m.Addr, Status: health.Unknown, Region: m.Region, Labels: m.Labels, Eligible: m.Eligible,
			Healthy: m.Healthy, LastSeenMs: -1, ProbeLatencyMs: -1, Since: m.Joined,
		}
		switch {
		case !m.Alive:
			v.Status = health.Unreachable
			v.Why = "its heartbeat has expired"
			c.Counts.Unreachable++
		case m.Heartbeats < 2:
			v.Why = fmt.Sprintf("no heartbeat within %v: it may have died", observe)
			c.Counts.Unknown++
		case !m.Healthy:
			v.Status = health.Degraded
			v.Why = "it reports itself unhealthy"
			c.Counts.Degraded++
		default:
			v.Status = health.Healthy
			c.Counts.Healthy++
		}
		if m.Heartbeats >= 2 {
			v.LastSeenMs = m.HeartbeatAge.Milliseconds()
		}

		c.Counts.Members++
		c.Members = append(c.Members, v)
	}

	return c
}

// Status implements [Cluster].
func (s *Store) Status(context.Context) (Status, error) { return Status{}, ErrNeedsNode }

// Do implements [Cluster].
func (s *Store) Do(ctx context.Context, verb Verb, election string, epoch uint64, to string) error {
	if _, err := s.get(ctx, election); err != nil { // an edit would create the register of a mistyped name
		return err
	}

	m := s.member()
	var err error
	switch verb {
	case HandOff:
		err = m.HandOff(ctx, election, to, regent.AtEpoch(epoch))
	case StepDown:
		err = m.StepDown(ctx, election, regent.AtEpoch(epoch))
	case Pause:
		err = m.Pause(ctx, election, regent.AtEpoch(epoch))
	case Resume:
		err = m.Resume(ctx, election, regent.AtEpoch(epoch))
	}

	var moved *regent.MovedError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, &moved):
		return &RefusedError{"epoch_passed", err.Error(), moved.Epoch}
	case errors.Is(err, regent.ErrStore):
		return s.failed(err)
	}

	return &RefusedError{"refused", err.Error(), epoch}
}

// Polls implements [Cluster].
func (s *Store) Polls(context.Context) ([]Poll, error) { return nil, ErrNeedsNode }

// Poll implements [Cluster].
func (s *Store) Poll(context.Context, string) (Poll, error) { return Poll{}, ErrNeedsNode }

// RunPoll implements [Cluster].
func (s *Store) RunPoll(context.Context, string, uint64) (Run, error) { return Run{}, ErrNeedsNode }

// Events implements [Cluster].
func (s *Store) Events(context.Context, string) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) { yield(StreamEvent{}, ErrNeedsNode) }
}

// failed returns the error of a store that has not answered as it should.
func (s *Store) failed(err error) error {
	return &unreachableError{s.Where(), plain.Error(err)}
}
