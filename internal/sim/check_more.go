package sim

import (
	"strconv"
	"strings"
	"time"
)

// shown is what an election's record shows.
type shown struct {
	who   string
	epoch uint64
}

// owed is what a leader was asked for, and has not done yet.
type owed struct {
	term
	via  string
	next string
	at   time.Duration // when it could know; 0 until then
}

// undone takes in what a rollback makes a register show.
func (c *checker) undone(e *Event) {
	c.lostAt[e.Name] = e.At
	if isMember(e.Name) {
		for election, o := range c.owed {
			if o.via == e.Name {
				delete(c.owed, election) // the touch that was to tell it may be lost
			}
		}

		return
	}

	c.shown[e.Name] = shown{e.Who, e.Epoch}
	delete(c.owed, e.Name)
}

// written checks what a swap makes of an election's checkpoint (I9), and takes in what the record shows.
func (c *checker) written(e *Event) {
	c.shown[e.Name] = shown{e.Who, e.Epoch}
	c.stored[e.Data] = true
	switch e.Op {
	case Claim:
		c.held[e.Who]++
	case Release:
		c.held[e.Old]--
	}

	if e.Data == e.OldData || e.Lost {
		return
	}

	owner, known := c.whose[e.Who]
	if !known || owner != e.Proc || !strings.HasPrefix(e.Data, e.Who+" "+strconv.FormatUint(e.Epoch, 10)+" ") {
		c.fail(I9, e.Name, "p%d writes the checkpoint %q into %s, which %s holds in epoch %d", e.Proc, e.Data, e.Name,
			short(e.Who), e.Epoch)
	}
}

// runs reports whether a process's duty for an election runs in an epoch.
func (c *checker) runs(proc int, election string, epoch uint64) bool {
	for d := range c.running {
		if d.proc == proc && d.election == election && d.epoch == epoch {
			return true
		}
	}

	return false
}

// stopping checks that a term's context ends before its deadline (R7), unless its process was
// frozen meanwhile.
func (c *checker) stopping(e *Event) {
	cl, ok := c.claims[term{e.Name, e.Epoch, e.Who}]
	frozen, was := c.thawed[e.Proc]
	if !ok || was && e.At <= frozen+time.Millisecond {
		return
	}

	if d := c.deadline[keeperOf(e, cl)]; e.Local > d {
		c.fail(R7, e.Name, "p%d has to end term %d of %s %v after its deadline", e.Proc, e.Epoch, e.Name, e.Local-d)
	}
}

// haunts checks a belief against what the store shows (I12). After a loss there is a lease and a
// request's time to notice, counted from when the process gets answers.
func (c *checker) haunts(e *Event, via string) {
	s := c.shown[e.Name]
	if s.who == e.Who && s.epoch == e.Epoch {
		return
	}

	lost, was := c.lostAt[e.Name]
	if at, ok := c.lostAt[via]; ok { // without the heartbeat it may have been taken for dead
		lost = max(lost, at)
		was = true
	}

	if !was {
		c.fail(I12, e.Name, "p%d believes that it leads %s in epoch %d, and the store shows %s in epoch %d", e.Proc,
			e.Name, e.Epoch,
			short(s.who), s.epoch)
		return
	}

	p := c.h.Procs[e.Proc]
	since := max(lost, c.thawed[e.Proc], c.answers[e.Proc], c.answers[-1])
	bound := time.Duration(float64(p.Lease+p.Trust/4)/p.Rate) + time.Millisecond
	if e.At > since+bound {
		c.fail(I12, e.Name,
			"p%d believes that it leads %s in epoch %d, %v after the store lost its claim: it shows %s in epoch %d",
			e.Proc, e.Name, e.Epoch, e.At-lost, short(s.who), s.epoch)
	}
}

// killed checks that a reaper had a reason (I10): the process holds a term, it has not renewed its
// lease in time, as far as it knows itself, and it was frozen or one of its duties still ran.
func (c *checker) killed(e *Event) {
	const (
		onItsWay = 10 * time.Millisecond // to the reaper, and until it acts
		inOrder  = time.Microsecond      // messages that are sent at once arrive one after the other
	)
	p := c.h.Procs[e.Proc]
	k := keeper{e.Name, e.Who}
	if e.Valid && e.At > c.known[k]+onItsWay {
		c.fail(I10, "", "p%d is killed by its reaper, and its lease on %s under %s lasts for another %v", e.Proc,
			e.Name,
			short(e.Who), c.deadline[k]-e.Local)
		return
	}

	for d := range c.running {
		if d.proc == e.Proc && d.who == e.Who {
			return
		}
	}

	// A duty that took longer than its stop timeout may return just before the kill. The reaper cannot know while the
	// message is in the pipe.
	if at, ok := c.stopped[e.Who]; ok && e.At <= at+p.Pipe+inOrder {
		return
	}

	frozen, was := c.thawed[e.Proc]
	if c.held[e.Who] > 0 && was && e.At <= frozen+p.Stop+p.Trust/100+onItsWay {
		return
	}

	c.fail(I10, "", "p%d is killed by its reaper, and holds nothing under %s of %s", e.Proc, short(e.Who), e.Name)
}

// answered checks that a request has returned when its context ended (I11).
func (c *checker) answered(e *Event) {
	p := c.h.Procs[e.Proc]
	frozen, was := c.thawed[e.Proc]
	if slack := p.Trust / 4; e.Took > slack && !(was && e.At-e.Took <= frozen) {
		c.fail(I11, "", "p%d gets an answer %v after the context of its request had ended: %s", e.Proc, e.Took, e.Text)
	}
}

// asked takes in requests to leaders, and what becomes of them (I11). A leader can know of one when
// its heartbeat register was touched after it; that of an election with a lease of its own is touched by
// the request itself.
func (c *checker) asked(e *Event) {
	if isMember(e.Name) {
		for election, o := range c.owed {
			if e.Op == Edit && o.via == e.Name && o.who == e.Who && o.at == 0 {
				o.at = e.At
				c.owed[election] = o
			}
		}

		return
	}

	if o, ok := c.owed[e.Name]; ok && (o.who != e.Who || o.epoch != e.Epoch) {
		delete(c.owed, e.Name)
	}

	if e.Op == Edit && e.Next != "" {
		o := owed{term: term{e.Name, e.Epoch, e.Who}, via: e.Via, next: e.Next}
		if e.Via == "" {
			o.at = e.At
		}

		c.owed[e.Name] = o
	}
}

// led checks, at the end, that nobody leads who was asked to make way, could know of it, and had
// time since (I11).
func (c *checker) led(e *Event) {
	o, ok := c.owed[e.Name]
	if !ok || o.at == 0 || o.who != e.Who || o.epoch != e.Epoch {
		return
	}

	if had := e.At - max(o.at, c.ended); had > 3*c.h.Procs[e.Proc].Lease {
		c.fail(I11, e.Name, "p%d still leads %s in epoch %d, %v after it was asked to make way for %s", e.Proc, e.Name,
			e.Epoch, e.At-o.at, o.next)
	}
}
