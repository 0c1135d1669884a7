package sim

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
)

// TestSightingsOfALock is about a record of a lock that a rollback brings back, and a read that was sent while the
// renewal which the store has lost was under way. The watch begins with the first answer that is known to be newer
// than the answer which showed the renewal (R2, R10).
func TestSightingsOfALock(t *testing.T) {
	lock := driver.Record{Name: election, Rev: "1", Holder: driver.Identity{ID: "a", Incarnation: "A1"}, Epoch: 1}
	renewed := driver.Record{Name: election, Rev: "2", Holder: driver.Identity{ID: "b", Incarnation: "B1"}, Epoch: 2}

	for _, c := range []struct {
		name    string
		via     string
		sent    time.Duration // when the read was sent whose answer comes at second 5
		watched time.Duration // at second 9
	}{
		{"not_with_a_read_that_was_under_way_at_the_same_time", "", 3 * second, 2 * second},
		{"not_with_a_read_that_was_sent_before", "", second, 2 * second},
		{"with_a_read_that_was_sent_after_the_answer", "", 4*second + 1, 4 * second},
		{"not_with_one_under_way_of_an_election_under_a_heartbeat", beatA, 3 * second, 2 * second},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				r := newRecorder(time.Now())
				p := &process{rec: r, index: 1, clock: &clock{start: r.start, rate: 1}, seen: map[string][]sighting{},
					knows: map[string]uint64{}, heights: map[string]*height{}, forgotten: map[string]time.Duration{},
					endSeen: map[string]time.Duration{}}
				lock, renewed := lock, renewed
				lock.Via, renewed.Via = c.via, c.via
				start := p.clock.Now()
				p.saw(lock, start)
				time.Sleep(4 * second)
				p.saw(renewed, start+2*second)

				time.Sleep(second)
				p.saw(lock, start+c.sent)
				time.Sleep(2 * second)
				p.saw(lock, start+6*second)
				time.Sleep(2 * second)
				s, ok := p.sightingOf(election, lock.Rev)
				if watched := p.clock.Now() - s.first; !ok || watched != c.watched {
					t.Errorf("it has been watched for %v, and not for %v", watched, c.watched)
				}
			})
		})
	}
}

// TestSightingsOfALockThatCameBack is the same where the read was sent after the lock had been replaced: that it shows
// the lock again proves that the store has gone back, so that the watch begins with it.
func TestSightingsOfALockThatCameBack(t *testing.T) {
	lock := driver.Record{Name: election, Rev: "1", Holder: driver.Identity{ID: "a", Incarnation: "A1"}, Epoch: 1}
	renewed := driver.Record{Name: election, Rev: "2", Holder: driver.Identity{ID: "b", Incarnation: "B1"}, Epoch: 2}

	for _, c := range []struct {
		name    string
		last    driver.Record // what the answer at second 7 shows, to a read that was sent before second 6
		watched time.Duration // at second 10
	}{
		{"with_the_read_that_shows_it", lock, 4 * second},
		{"not_if_another_was_shown_after_that", renewed, second},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				r := newRecorder(time.Now())
				p := &process{rec: r, index: 1, clock: &clock{start: r.start, rate: 1}, seen: map[string][]sighting{},
					knows: map[string]uint64{}, heights: map[string]*height{}, forgotten: map[string]time.Duration{},
					endSeen: map[string]time.Duration{}}
				start := p.clock.Now()
				show := func(l driver.Record, sent, answered time.Duration) {
					time.Sleep(start + answered - p.clock.Now())
					p.saw(l, start+sent)
				}
				show(lock, 0, 0)
				show(renewed, second, 2*second)
				show(renewed, 3*second, 5*second)
				show(lock, 4*second, 6*second) // under way with the one before
				show(c.last, 4*second, 7*second)
				show(lock, 8*second, 9*second)
				time.Sleep(second)
				s, ok := p.sightingOf(election, lock.Rev)
				if watched := p.clock.Now() - s.first; !ok || watched != c.watched {
					t.Errorf("it has been watched for %v, and not for %v", watched, c.watched)
				}
			})
		})
	}
}
