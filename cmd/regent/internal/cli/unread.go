package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// This file is about a node that answers, and cannot read its store: it knows its own role, and what it read before.

// unread reports whether an error is that of a node which cannot read its store.
func unread(err error) bool {
	var refused *cluster.RefusedError
	return errors.As(err, &refused) && refused.Code == string(api.CodeStore)
}

// ownStatus returns what the node knows by itself, if err says that it cannot read its store. Otherwise it returns err.
func (s *session) ownStatus(ctx context.Context, err error) (cluster.Status, error) {
	asked, isNode := s.cluster.(*cluster.Node)
	if !isNode || !unread(err) {
		return cluster.Status{}, err
	}

	status, silent := asked.LocalStatus(ctx)
	if silent != nil {
		return cluster.Status{}, err
	}
	return status, nil
}

// unreadStore returns the error of a command that needs the store, with what the node knows by itself.
func (s *session) unreadStore(ctx context.Context, err error) error {
	status, failed := s.ownStatus(ctx, err)
	if failed != nil {
		return err
	}

	return &ExitError{ExitUnreachable, fmt.Errorf("%s cannot read its store %s: %w\n%s\n"+
		"'regent status' shows all that the node knows by itself, 'regent doctor --store …' checks the store",
		status.Node, status.Store.Address, err, knownTo(status))}
}

// ownReport returns what the node knows by itself as a report, if err says that it cannot read its store.
func (s *session) ownReport(ctx context.Context, err error) (*Report, error) {
	status, failed := s.ownStatus(ctx, err)
	if failed != nil {
		return nil, err
	}

	r := &Report{
		Asked: s.cluster.Where(), Node: &status, Elections: []cluster.Election{}, now: time.Now(), unread: err,
		Problems: []string{fmt.Sprintf("%s cannot read its store %s: %v", status.Node, status.Store.Address, err)},
	}
	r.addNode(status)
	return r, nil
}

// knownTo returns what a node knows of its election without its store, in a sentence.
func knownTo(s cluster.Status) string {
	switch {
	case s.Role == node.Leader:
		return fmt.Sprintf("%s leads election %s, epoch %d, for another %s by its own deadline", s.Node, s.Election,
			s.Epoch, output.Milliseconds(s.LeaseRemainingMs))
	case s.Leader != "":
		return fmt.Sprintf("%s led election %s, epoch %d, when %s last read the store, %s ago", s.Leader, s.Election,
			s.Epoch, s.Node, output.Milliseconds(max(0, s.Store.ReadMs)))
	case s.Epoch == 0 || s.Why == nil:
		return fmt.Sprintf("%s has read nothing of election %s yet", s.Node, s.Election)
	}

	return fmt.Sprintf("nobody leads election %s as far as %s knows; the last epoch was %d: %s", s.Election, s.Node,
		s.Epoch, s.Why.Text)
}

// explainOwn explains why the node that was asked leads, or does not, by what it knows without its store. failed is why
// the node cannot read it: just after a store has hung, none of its own checks has failed yet.
func (x *subject) explainOwn(failed error) *Explanation {
	s := x.status
	x.election = cluster.Election{
		Name: s.Election, State: elections.Vacant, Leader: s.Leader, Epoch: s.Epoch, Paused: s.Paused, Since: s.Since,
	}

	r := &Explanation{
		Node: x.node, Election: s.Election, Leads: s.Role == node.Leader, Leader: s.Leader, Epoch: s.Epoch,
		Text: knownTo(*s) + ".", Because: x.obstacles(), But: []string{},
	}
	if c := s.Checks["store"]; c == "" || c == "ok" {
		r.Because = append([]string{fmt.Sprintf("it cannot read the store %s: %v", s.Store.Address, failed)},
			r.Because...)
	}
	if r.Leads { // in spite of it
		r.But = r.Because
		r.Because = []string{}
	} else {
		r.Text = fmt.Sprintf("%s does not lead election %s: %s.", x.node, s.Election, knownTo(*s))
	}
	return r
}
