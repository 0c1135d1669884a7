// Package cluster asks a cluster: through a node, by HTTP, or straight from its store.
//
// A node knows more than the store shows: the health of members, polls and events. What only a node knows, the store's
// side refuses with [ErrNeedsNode].
package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

var (
	// ErrNeedsNode means that only a node can answer, and not the store.
	ErrNeedsNode = errors.New("only a node knows this: use --addr, not --store")
	// ErrUnreachable means that neither a node nor a store has answered.
	ErrUnreachable = errors.New("unreachable")
	// ErrNotFound means that there is no such election or poll.
	ErrNotFound = errors.New("not found")
)

// notFoundError is an [ErrNotFound] with a text of its own.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

// Is makes the error an [ErrNotFound].
func (e notFoundError) Is(target error) bool { return target == ErrNotFound }

// neverHeld returns the error for an election that is not in the store.
func neverHeld(name string) error {
	return notFoundError(fmt.Sprintf("election %q was never held", name))
}

// unreachableError is an [ErrUnreachable] with a text of its own.
type unreachableError struct {
	text string
	err  error
}

func (e *unreachableError) Error() string { return e.text + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *unreachableError) Unwrap() error { return e.err }

// Is makes the error an [ErrUnreachable].
func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

// RefusedError means that the cluster has understood a request and has not done it.
type RefusedError struct {
	Code  string // of the HTTP API
	Text  string
	Epoch uint64 // the current one, where that is known
}

func (e *RefusedError) Error() string { return e.Text }

// Cluster is what commands ask.
type Cluster interface {
	// Where returns what is asked, for people: a node's address, or a store's without its secrets.
	Where() string
	// Elections lists the elections of the store.
	Elections(ctx context.Context) (Elections, error)
	// Election returns one election, with all its candidates.
	Election(ctx context.Context, name string) (Election, error)
	// Record returns the record of an election as the store shows it now.
	Record(ctx context.Context, name string) (Record, error)
	// History returns the terms of an election that have ended, oldest first.
	History(ctx context.Context, name string) (History, error)
	// Members returns the members and their health.
	Members(ctx context.Context) (Members, error)
	// Status returns the state of the node that is asked. A store returns [ErrNeedsNode].
	Status(ctx context.Context) (Status, error)
	// Do runs a verb, on the condition that the epoch is still the one that the caller has seen.
	Do(ctx context.Context, verb Verb, election string, epoch uint64, to string) error
	// Polls returns all polls.
	Polls(ctx context.Context) ([]Poll, error)
	// Poll returns one poll with its last runs.
	Poll(ctx context.Context, name string) (Poll, error)
	// RunPoll runs a poll now.
	RunPoll(ctx context.Context, name string, epoch uint64) (Run, error)
	// Events yields the events of the node that is asked, those that it keeps first, until ctx ends or the stream
	// breaks. from is the ID of the last event that the caller has seen; empty for none.
	Events(ctx context.Context, from string) iter.Seq2[StreamEvent, error]
	// Close releases what the cluster uses.
	Close() error
}

// StreamEvent is an event of a stream, with the ID by which the stream goes on after it.
type StreamEvent struct {
	Event
	ID string `json:"id,omitempty"`

	// EndOfKept means that this is no event: all events that the node kept have come, and new ones follow.
	EndOfKept bool `json:"-"`
}

// find returns one election of a list.
func find(all Elections, name string) (Election, error) {
	for _, e := range all.Elections {
		if e.Name == name {
			return e, nil
		}
	}

	return Election{}, neverHeld(name)
}
