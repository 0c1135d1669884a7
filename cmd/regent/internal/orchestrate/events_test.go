package orchestrate_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// eventLog collects events. The zero value is ready for use.
type eventLog struct {
	mu     sync.Mutex
	events []regent.Event
}

func (l *eventLog) emit(e regent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// eventsOf returns the events of a kind.
func (l *eventLog) eventsOf(kind regent.EventKind) []regent.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.events), func(e regent.Event) bool { return e.Kind != kind })
}

// watch yields the members that list returns, every interval, until ctx ends.
func watch(ctx context.Context, interval time.Duration, list func() []regent.MemberState,
) iter.Seq2[[]regent.MemberState, error] {
	return func(yield func([]regent.MemberState, error) bool) {
		for ctx.Err() == nil && yield(list(), nil) {
			select {
			case <-time.After(interval):
			case <-ctx.Done():
			}
		}
	}
}

// aliveWorker returns the state of a worker that is alive.
func aliveWorker(id, addr string, labels map[string]string) regent.MemberState {
	v := regent.MemberView{ID: id, Addr: addr, Incarnation: "1"}
	v.Worker = true
	v.Labels = labels
	return regent.MemberState{MemberView: v, Alive: true}
}

// runMember runs a member with a duty until the returned function is called, which may be called again.
func runMember(t *testing.T, m *regent.Member, duty func(context.Context, regent.Term) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx, regent.Duty{Election: "seat", Name: "polls", Run: duty})
	}()

	return func() {
		cancel()
		<-done
	}
}
