package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stint is one candidacy.
type stint struct {
	led    chan time.Time // receives when it leads
	done   chan error     // receives when it has ended
	cancel context.CancelFunc
}

func stand(ctx context.Context, c contender, election string) *stint {
	ctx, cancel := context.WithCancel(ctx)
	s := &stint{led: make(chan time.Time, 1), done: make(chan error, 1), cancel: cancel}
	go func() {
		s.done <- c.hold(ctx, election, func() {
			select {
			case s.led <- time.Now():
			default: // it has been said
			}
		})
	}()
	return s
}

// leads waits until it leads, and returns since when.
func (s *stint) leads(ctx context.Context) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case at := <-s.led:
		return at, nil
	case err := <-s.done:
		s.done <- err
		return time.Time{}, fmt.Errorf("ended before it led: %w", errors.Join(err, ctx.Err()))
	case <-limit.C:
		return time.Time{}, fmt.Errorf("does not lead after %v", patience)
	}
}

func (s *stint) end() error {
	s.cancel()
	return <-s.done
}
