package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// candidacy is one campaign of a Contender.
type candidacy struct {
	led    chan time.Time // receives when it leads
	done   chan error     // receives when it has ended
	cancel context.CancelFunc
}

// campaign starts a campaign in the background.
func campaign(ctx context.Context, c Contender, election string) *candidacy {
	ctx, cancel := context.WithCancel(ctx)
	s := &candidacy{led: make(chan time.Time, 1), done: make(chan error, 1), cancel: cancel}
	go func() {
		s.done <- c.Hold(ctx, election, func() {
			select {
			case s.led <- time.Now():
			default: // reported already
			}
		})
	}()

	return s
}

// leads waits until the Contender leads, and returns since when.
func (s *candidacy) leads(ctx context.Context) (time.Time, error) {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()

	select {
	case at := <-s.led:
		return at, nil
	case err := <-s.done:
		s.done <- err
		return time.Time{}, fmt.Errorf("ended before it led: %w", errors.Join(err, ctx.Err()))
	case <-limit.C:
		return time.Time{}, fmt.Errorf("does not lead after %v", waitLimit)
	}
}

// end ends the campaign, and returns its error.
func (s *candidacy) end() error {
	s.cancel()
	return <-s.done
}
