package health

import (
	"time"

	"github.com/regentd/regent"
)

// sight is a member's heartbeat in the eyes of this node. Times are readings of its own monotonic clock.
type sight struct {
	view   regent.MemberView // the last one that showed somebody: a vacant register says nothing of who was there
	rev    string
	vacant bool
	began  time.Time // when the newest listing was sent
	looked time.Time // when its answer was received
	stood  time.Time // since when it shows this revision: from after the answer, never before
	proven bool      // a heartbeat was seen: the revision has changed between two listings

	cutAt   time.Time // when probes began to fail, none having succeeded since; zero if they do not
	cutBeat bool      // a heartbeat was certainly sent after that
}

// see takes in what a listing showed that was sent at began and answered at received. It reports whether another incarnation is there.
func (s *sight) see(v regent.MemberView, began, received time.Time) (joined bool) {
	first := s.looked.IsZero()
	before := s.looked
	s.began, s.looked = began, received
	if !first && v.Rev == s.rev {
		return false
	}
	joined = v.Incarnation != "" && (first || s.vacant || v.Incarnation != s.view.Incarnation)
	s.rev, s.stood, s.vacant = v.Rev, received, v.Incarnation == ""
	switch {
	case s.vacant:
		s.view.ID = v.ID
		s.cutAt, s.cutBeat = time.Time{}, false
		return false
	case joined:
		s.cutAt, s.cutBeat = time.Time{}, false
	case !s.cutAt.IsZero() && before.After(s.cutAt):
		// The listing before showed another revision, and came after the failed probe. One from before the probe would not do: the member
		// may have written this one and died in between.
		s.cutBeat = true
	}
	s.view, s.proven = v, !first
	return joined
}

// probed takes in that a probe has ended.
func (s *sight) probed(err error, now time.Time) {
	switch {
	case err == nil:
		s.cutAt, s.cutBeat = time.Time{}, false
	case s.cutAt.IsZero():
		s.cutAt = now
	}
}

// unknownLease is how long a heartbeat counts whose register does not say.
const unknownLease = 30 * time.Second

func (s *sight) lease() time.Duration {
	if s.view.Lease <= 0 {
		return unknownLease
	}
	return s.view.Lease
}

// quiet is for how long the revision is known to have stood still.
func (s *sight) quiet() time.Duration { return max(0, s.began.Sub(s.stood)) }

func (s *sight) ranOut() bool { return !s.vacant && s.quiet() >= s.lease() }

// patience is how long a heartbeat may take before it is late. All profiles beat four times in a lease; others may beat less often.
func (s *sight) patience(heartbeat time.Duration) time.Duration {
	return 2 * max(heartbeat, s.lease()/4)
}

func (s *sight) late(heartbeat time.Duration) bool { return s.quiet() >= s.patience(heartbeat) }

// due is when to look again because of this member, if there is a doubt about it, and zero if there is none.
func (s *sight) due(heartbeat time.Duration) time.Time {
	sure := s.proven && !s.late(heartbeat) && (s.cutAt.IsZero() || s.cutBeat)
	if s.vacant || s.ranOut() || sure {
		return time.Time{}
	}
	if !s.late(heartbeat) {
		return s.stood.Add(min(s.patience(heartbeat), s.lease()))
	}
	return s.stood.Add(s.lease())
}
