package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the observer's half of a lease: when somebody else's heartbeat has expired, and how its incarnation
// is ended. heartbeat.go is the holder's half.

// watch is a heartbeat register in the eyes of somebody else.
type watch struct {
	rec   driver.Record
	seen  bool
	since Time // when this heartbeat was first received: after the answer, never before (rule 2)
	began Time // when the newest read of it was sent

	order uint64 // the number of that read
	moved uint64 // the last request before a swap showed that the store no longer has this record; 0 if none did
	gone  bool   // the process that wrote it is proved dead

	other   bool        // a late answer has shown another heartbeat
	renewed bool        // it was seen to change in the hands of this holder
	former  driver.Past // how the last holder but this one ended, as far as that is known
}

// see takes in what a request has shown, and reports whether that is news. A read that was sent before the newest one
// may be older, and says nothing. Nor does one that was sent before a swap had shown that the record has moved, if it
// still shows it.
//
// An edit of the record, by which somebody asks something of its holder, proves nothing of the holder's life and
// gives no time: it keeps the nonce and adds to the number of edits. Any other change of the revision counts from
// now on: a heartbeat, but also a record that comes back after the store has lost writes.
func (c *Core) see(w *watch, r *driver.Record, by call) bool {
	known := w.seen && r.Rev == w.rec.Rev
	if w.seen && by.order() < w.order || known && by.order() <= w.moved {
		return false
	}
	if w.seen && r.Holder != w.rec.Holder && w.rec.Via == "" {
		w.former = c.endedBefore(w, r)
	}

	same := known && w.moved == 0
	edited := w.seen && !w.other && r.Holder == w.rec.Holder && r.Nonce == w.rec.Nonce && r.Edits > w.rec.Edits
	if !same && !edited {
		w.renewed = w.seen && !known && r.Holder == w.rec.Holder && !r.Vacant()
		w.since = c.now
	}

	if !same || by.witness {
		w.gone = by.gone
	}

	w.rec = *r
	w.began = by.sent
	w.order = by.order()
	w.moved = 0
	w.other = false
	w.seen = true
	return true
}

// passed takes in that the store no longer has a revision, as a request has shown after which last was the last to be
// sent. Should the record come back, the store has gone back, and it is watched anew (rule 2).
func (w *watch) passed(rev string, last uint64) {
	if w.seen && w.rec.Rev == rev {
		w.moved = last
	}
}

// expires is when the heartbeat expires unless another one comes: W on the observer's own clock (rule 2).
func (w *watch) expires() Time { return w.since.Add(w.rec.Duration) }

// expired reports whether a read that began late enough still showed the same heartbeat (rule 10: after the
// takeover delay it is read again, and only then is it revoked), or its process is proved dead.
func (w *watch) expired(delay time.Duration) bool {
	if !w.seen || w.rec.Vacant() || w.moved != 0 {
		return false
	}
	return w.gone || w.began >= w.expires().Add(delay)
}

// readAt is when the register should be read again: when it would have expired, and three times in a lease. By that
// it is known well how old it is. And of the heartbeats that a store loses, those that nobody had read are few: their
// holder meets the loss with its next one, before anybody can take them for expired.
func (w *watch) readAt(delay time.Duration) Time {
	end := w.expires().Add(delay)
	switch {
	case w.rec.Vacant():
		return Never
	case w.moved != 0:
		return w.began
	case w.began >= end:
		return Never
	}

	return min(w.began.Add(w.rec.Duration/3), end)
}

// revoked returns the record that ends the incarnation of an expired heartbeat: on the very revision that was watched
// (rule 4). If it has moved, its holder lives, or somebody else was first.
func (c *Core) revoked(dead *watch) driver.Record {
	end := c.endingOfWatch(dead)
	return vacatedBeat(&dead.rec, c.src.Nonce(), end.at, end.reason)
}

// sight is a member register that elections of others depend on.
type sight struct {
	entity
	name    string
	watch   watch
	proof   uint64 // the number of the request that showed it; elections received before that may rely on it
	retry   retry
	deps    []uint32 // the elections that name it and that somebody else seems to hold
	waiting []uint32 // those among them that need a newer read
	again   bool     // a notification names it
	fresh   uint64   // the core's refresh when it was last read because of that
	revoke  bool     // an election is free once it is revoked
	pokes   []poke   // requests to its holder
	cleared int      // how many of deps nobody healthy runs for, as far as they were checked

	idleness
}

// sightOf returns the sight of a member register, new if need be.
func (c *Core) sightOf(name string) *sight {
	if i, ok := c.sighted[name]; ok {
		return c.sights.all[i]
	}

	s := &sight{name: name, fresh: c.refresh}
	i := c.sights.add(s)
	s.init(makeRef(sightKind, i))
	c.sighted[name] = i
	return s
}

// attach keeps the index from heartbeat registers to elections in step with the record of an election.
func (c *Core) attach(e *election) {
	via := ""
	if c.followed(e) {
		via = e.rec.Via
	}

	c.attendable(e)
	if e.via == via {
		return
	}
	if e.via != "" {
		s := c.sightOf(e.via)
		last := len(s.deps) - 1
		moved := c.elections.all[s.deps[last]]
		s.deps[e.dep] = moved.index()
		moved.dep = e.dep
		s.deps = s.deps[:last]
		if len(s.deps) == 0 {
			c.enqueue(s.ref)
			c.emit(Unfollow{s.name})
		}
	}

	e.via = via
	e.waits = false
	if via != "" {
		s := c.sightOf(via)
		if len(s.deps) == 0 {
			c.emit(Follow{s.name})
		}
		e.dep = len(s.deps)
		s.deps = append(s.deps, e.index())
	}
}

// refreshSight has the heartbeat register of an election read, once after a notice that anything may have changed.
func (c *Core) refreshSight(e *election) {
	if i, ok := c.sighted[e.via]; ok && c.sights.all[i].fresh != c.refresh {
		s := c.sights.all[i]
		s.fresh = c.refresh
		s.again = true
		c.enqueue(s.ref)
	}
}

// need has the heartbeat register of an election read: what was read before its record was received proves nothing.
func (c *Core) need(e *election, s *sight) {
	if !e.waits {
		e.waits = true
		s.waiting = append(s.waiting, e.index())
		c.enqueue(s.ref)
	}
}

// advanceSight reads the register when somebody needs that, and revokes the heartbeat when an election is free by it.
func (c *Core) advanceSight(s *sight) {
	c.expirePokes(s)
	if len(s.deps) == 0 && len(s.pokes) == 0 {
		c.dropSight(s)
		return
	}

	if s.busy() {
		return
	}

	if s.idles && c.now >= s.idleUntil {
		c.wakeIdle(s)
	}

	s.revoke = s.revoke && s.proof != 0 && s.watch.expired(c.cfg.TakeoverDelay)
	due := s.watch.seen && c.now >= c.sightDue(s)
	switch {
	case s.revoke && c.now >= c.backoff && c.mayRevoke(s):
		c.decided(10, s.name, "expired, and still so after the takeover delay: revoke this very heartbeat")
		c.swap(&s.entity, revokeCall, c.revoked(&s.watch))
		return
	case !s.retry.passed(c.now):
		s.wake(s.retry.at)
		return
	case len(s.pokes) > 0 && c.poke(s):
		return
	case !s.watch.seen || s.proof == 0 || len(s.waiting) > 0 || s.again || due:
		s.again = false
		c.read(&s.entity, s.name)
		return
	}

	s.wake(c.sightDue(s))
	if s.revoke && c.now < c.backoff {
		s.wake(c.backoff)
	}
}

func (c *Core) dropSight(s *sight) {
	c.unschedule(&s.entity)
	c.sights.drop(s.ref.index())
	delete(c.sighted, s.name)
}

// sightAnswered takes in what became of a read, a revocation or a poke.
func (c *Core) sightAnswered(s *sight, done call, o Outcome, r driver.Record) {
	if o == NotFound {
		r = driver.Record{Name: s.name}
	}

	known := o == Done || o == NotFound

	if done.kind == pokeCall {
		c.pokeAnswered(s, o)
	}

	switch {
	case known:
		c.seen(s, &r, done)
		c.shareSight(&r, done)
	case done.kind == readCall:
		c.unread(&s.retry, s.name, done, o)
		s.idles = false // what a notification may have said must not be lost
		c.watchClosely(s)
	default: // a revocation that is not known to be applied is none: the next read shows it
		s.proof = 0
		s.revoke = false
		if o == Conflict {
			s.retry.at = c.now.Add(conflictWait)
		} else {
			c.failed()
		}
	}
}

// seen takes in what the register shows, and advances the elections for which that may make a difference.
func (c *Core) seen(s *sight, r *driver.Record, done call) {
	moved := !s.watch.seen || s.watch.rec.Holder != r.Holder
	if !c.see(&s.watch, r, done) {
		return
	}

	c.considerIdling(s)
	c.explainSight(s)
	s.proof = done.order()
	s.retry = retry{}

	waiting := s.waiting
	s.waiting = nil
	for _, i := range waiting {
		if e := c.elections.all[i]; e != nil {
			e.waits = false
			c.enqueue(e.ref)
		}
	}

	if moved || s.watch.expired(c.cfg.TakeoverDelay) {
		for _, i := range s.deps {
			c.enqueue(c.elections.all[i].ref)
		}
	}
}
