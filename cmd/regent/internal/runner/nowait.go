package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

// lookInterval is how often a campaign that does not wait reads who leads.
const lookInterval = 250 * time.Millisecond

// giveUp ends a campaign that does not wait, as soon as it cannot be won at once. It returns when the campaign is
// over, or ctx ends.
//
// A record that names a holder is no proof that somebody leads: the holder may have died long ago. If every campaign
// gave up because of it, nobody would ever lead again. So giveUp waits for a heartbeat: a live holder sends the next
// one within its interval, and the lease of a dead one expires.
func (s *supervision) giveUp(ctx context.Context, clock *timeout) {
	var first driver.Record
	for !clock.over() {
		heartbeat, paused, err := s.holder(ctx)
		other := err == nil && !heartbeat.Vacant() && heartbeat.Holder.ID != s.m.ID
		switch {
		case paused:
			clock.expireNow("the election is paused")
		case other && heartbeat.Holder == first.Holder && heartbeat.Nonce != first.Nonce:
			clock.expireNow(heartbeat.Holder.ID + " leads")
		case other && heartbeat.Holder != first.Holder:
			first = heartbeat
		}

		if !sleep(ctx, lookInterval) {
			return
		}
	}
}

// holder returns the register whose heartbeats keep the election's holder alive; a vacant one if nobody holds it.
func (s *supervision) holder(ctx context.Context) (heartbeat driver.Record, paused bool, err error) {
	record, err := s.m.Store.Get(ctx, s.election)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return driver.Record{}, false, nil
	case err != nil:
		return driver.Record{}, false, err
	case record.Vacant() || record.Via == "":
		return record, record.Paused, nil
	}

	heartbeat, err = s.m.Store.Get(ctx, record.Via)
	if err == nil && heartbeat.Holder != record.Holder { // that incarnation is dead
		heartbeat = driver.Record{}
	}

	return heartbeat, record.Paused, err
}

// notAcquired returns the error of a campaign that was not won.
func (s *supervision) notAcquired(why string) error {
	if why != "" {
		return fmt.Errorf("%w: election %s, --no-wait: %s", ErrNotAcquired, s.election, why)
	}
	return fmt.Errorf("%w: election %s, --timeout %v: %s", ErrNotAcquired, s.election, s.p.Timeout, s.rival())
}

// rivalTimeout is how long the store may take to say who holds the election.
const rivalTimeout = time.Second

// rival returns why an election was not won, as the store shows it.
func (s *supervision) rival() string {
	ctx, cancel := context.WithTimeout(context.Background(), rivalTimeout)
	defer cancel()

	heartbeat, paused, err := s.holder(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("who leads is not known: %v", err)
	case paused:
		return "the election is paused"
	case heartbeat.Vacant():
		return "nobody holds it now"
	}
	return heartbeat.Holder.ID + " holds it"
}
