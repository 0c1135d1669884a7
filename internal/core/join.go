package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// joinNow reads the register, if there is a reason to join.
func (c *Core) joinNow() {
	m := &c.member
	switch {
	case c.closing:
		c.leaveNow()
	case !c.joins():
	case m.busy():
	case c.now < m.retry:
		m.wake(m.retry)
	default:
		c.read(&m.entity, driver.MemberRegister(c.cfg.ID))
	}
}

// joinOn joins on a register as it was read: on a vacant one, or over an incarnation that this same process has
// ended. Any other one must first expire and be revoked, so that two processes with one ID never both join.
func (c *Core) joinOn(r driver.Record, done call) {
	m := &c.member
	m.rec = r
	if !r.Vacant() && !slices.Contains(c.endings, r.Holder) {
		m.other = watch{}
		c.see(&m.other, &r, done)
		m.phase = memberWaiting
		m.alive = false
		c.emit(Event{Kind: EventWaiting, Holder: r.Holder, Other: r})
		return
	}

	c.decided(0, r.Name, "the register is vacant, or shows an incarnation that this process has ended: join")
	c.runs = max(c.runs, r.Epoch) + 1
	who := driver.Identity{ID: c.cfg.ID, Incarnation: strconv.FormatUint(c.runs, 10) + "." + c.src.Incarnation()}
	w := c.cfg.memberLease()
	m.beat = beat{register: r.Name, who: who, every: c.cfg.interval(c.cfg.HeartbeatInterval, w), trust: c.cfg.trust(w)}
	m.phase = memberJoining
	m.swapHeartbeat(c, driver.Record{
		Name: r.Name, Rev: r.Rev, Holder: who, Addr: c.cfg.Addr, Epoch: c.runs, Duration: w,
		Since: c.src.Wall(), Data: c.info, Past: c.pastOf(&r),
	})
}

func (m *member) swapHeartbeat(c *Core, r driver.Record) {
	m.rec = r
	c.swap(&m.entity, renewCall, c.attempt(&m.beat, r))
}

// awaitOther waits until the incarnation that has the register has left, or has expired and been revoked.
func (c *Core) awaitOther() {
	m := &c.member
	switch {
	case c.closing:
		c.leaveNow()
	case m.busy():
	case c.now < m.retry:
		m.wake(m.retry)
	case m.other.rec.Holder != m.rec.Holder: // another request has shown that it has left
		m.phase = memberOut
		c.joinNow()
	case m.other.expired(0):
		c.swap(&m.entity, revokeCall, c.revoked(&m.other))
	default:
		next := min(m.other.expires(), m.other.began.Add(c.cfg.HeartbeatInterval))
		if c.now < next {
			m.wake(next)
			return
		}

		c.read(&m.entity, m.rec.Name)
	}
}

// awaitJoin reads what became of the first heartbeat, if that is not plain.
func (c *Core) awaitJoin() {
	if m := &c.member; !m.busy() {
		c.read(&m.entity, m.rec.Name)
	}
}

// joined follows the answer to the first heartbeat. Whatever became of one that did not succeed, its incarnation is
// over: if it shows up later, this process may write over it.
func (c *Core) joined(ok bool) {
	m := &c.member
	if ok && m.beat.lives(c.now) {
		m.phase = memberIn
		m.failed = 0
		m.fresh = nil
		m.claims = nil
		c.emit(Event{Kind: EventJoined, Holder: m.beat.who})
		c.enqueueAll()
		c.enqueue(c.roster.ref)
		return
	}

	c.endBeat(&m.beat, Lost)
	c.hasEnded(m.beat.who)
	m.phase = memberOut
	c.joinFailed()
}

// joinFailed waits before the next attempt to join.
func (c *Core) joinFailed() {
	m := &c.member
	m.failed++
	wait := time.Second
	if n := len(c.cfg.RenewBackoff); n > 0 {
		wait = c.cfg.RenewBackoff[min(m.failed, n)-1]
	}

	m.retry = c.now.Add(wait)
}

// otherAnswered takes in a read of a register that another incarnation has, or the revocation of that incarnation.
func (c *Core) otherAnswered(done call, known bool, r driver.Record) {
	m := &c.member
	switch {
	case !known:
		c.joinFailed()
		m.other.began = 0 // it is read again before it is revoked
	case done.kind == readCall && r.Holder == m.rec.Holder:
		m.failed = 0
		renewed := r.Nonce != m.other.rec.Nonce
		c.see(&m.other, &r, done)
		if renewed && !m.alive {
			m.alive = true
			c.emit(Event{Kind: EventWaiting, Holder: r.Holder, Other: r, Alive: true})
		}
	default:
		m.failed = 0
		m.phase = memberOut
		m.retry = 0
		c.joinOn(r, done)
	}
}

func (c *Core) joinAnswered(done call, o Outcome, r driver.Record) {
	b := &c.member.beat
	switch {
	case o == Done:
		c.member.rec = r
		c.joined(c.shown(b, &r) == beatApplied)
	case done.kind == renewCall:
		c.attempted(b, o, done)
	default:
		c.joined(false)
	}
}

// incarnationCount returns the count that the name of an incarnation carries, and 1 for a name that carries none.
func incarnationCount(incarnation string) uint64 {
	text, _, _ := strings.Cut(incarnation, ".")
	count, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 1
	}

	return count
}
