package sim

import (
	"fmt"
	"time"
)

// The invariants.
const (
	I1  = "I1"  // one nonce per epoch
	I2  = "I2"  // no belief in an older epoch, and no duty that still acts in one, after a newer one began
	I3  = "I3"  // a fence's accepted epochs never fall
	I4  = "I4"  // grants ordered in time have growing epochs, and so have incarnations
	I5  = "I5"  // every accepted token was granted
	I6  = "I6"  // nothing is sent or believed after its deadline, of an election or of the heartbeat that keeps it
	I7  = "I7"  // a leader again within a bound once faults stop, and no process ends that nobody has ended
	I8  = "I8"  // a release touches only its own record, and keeps what outlives a term: epoch, checkpoint, pause
	I9  = "I9"  // a checkpoint is written only by the term that holds its record; a term reads that of its claim
	I10 = "I10" // a reaper kills only who holds a term and has not ended it, and releases only for the dead
	I11 = "I11" // a request to a leader ends with its context; an accepted one ends the term soon
	I12 = "I12" // a belief that the store has lost ends within a lease and the time of one request
	I13 = "I13" // a fence accepts an epoch for one term only
	I14 = "I14" // nobody spins: no loop waits for the shortest time again and again

	// Rules whose violation the above need not show.
	R2  = "R2"  // a record is taken from its holder only by one who has watched it for its whole lease
	R5  = "R5"  // a record that shows less than was seen before is claimed only a lease after that was noticed
	R6  = "R6"  // an election is claimed only from a dead incarnation, and a register joined over none but one's own
	R7  = "R7"  // a context ends before its deadline; a release, and the next duty, follow the end of the duty
	R10 = "R10" // a heartbeat is revoked only if a read sent after the takeover delay still shows it run out
	R11 = "R11" // no request of any kind before the start-up jitter has passed
)

// Violation is a promise that a history breaks, and where.
type Violation struct {
	Invariant string
	Event     int // index of the event that shows it
	Election  string
	Text      string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Invariant, v.Text) }

// holds reports whether an invariant must hold in a class.
//
//	class     promises
//	assumed   all of them
//	beyond    all but I2, I6, I7, I12, R7: beliefs may overlap and elections may flap, but no epoch
//	          is given twice or accepted late
//	rollback  all of them: whoever could be in the way remembers more than the store shows, and waits
//	lossy     all but I1, I2, I4, R6. Two members of which neither has seen the other's claim
//	          may get one epoch, and believe at once: I12 says for how long, and I13 that no
//	          fence takes work from both. For one process epochs still grow (I4).
func (c Class) holds(invariant string) bool {
	switch invariant {
	case I2:
		return c != Beyond && c != Lossy
	case I6, I7, I12, R7:
		return c != Beyond
	case I1, R6:
		return c != Lossy
	}

	return true
}

// maxSpins is how many short timers a process may set within spinWindow.
const maxSpins = 60

// Check returns what a history breaks, the first of each kind.
func Check(h *History) []Violation {
	c := &checker{h: h, claims: map[term]claimed{}, first: map[electionEpoch]int{}, newest: map[string]uint64{},
		granted: map[grantee]uint64{},
		regs:    map[string]string{}, whose: map[string]int{}, sent: map[attempt]time.Duration{},
		deadline: map[keeper]time.Duration{}, known: map[keeper]time.Duration{},
		fences: map[post]uint64{}, running: map[duty]bool{}, stopped: map[string]time.Duration{},
		thawed: map[int]time.Duration{}, found: map[string]bool{},
		begun: map[int]time.Duration{}, dead: map[int]bool{}, shown: map[string]shown{},
		lostAt:  map[string]time.Duration{},
		answers: map[int]time.Duration{}, stored: map[string]bool{}, held: map[string]int{}, owed: map[string]owed{},
		admitted: map[admission]string{}}

	for i, e := range h.Events {
		c.at = i
		c.take(&e)
	}

	for i, p := range h.Procs {
		if p.Spins > maxSpins {
			c.fail(I14, "", "p%d sets %d timers of the shortest time within %v", i, p.Spins, spinWindow)
		}
	}

	return c.violations
}

type (
	term struct {
		election string
		epoch    uint64
		who      string
	}
	claimed struct {
		proc  int
		via   string
		nonce uint64
		data  string
	}
	grantee struct {
		election string
		proc     int // -1 for all
	}
	attempt struct {
		name, who string
		nonce     uint64
	}
	keeper struct{ name, who string } // a heartbeat register and the incarnation that it keeps alive
	post   struct {
		worker   int
		election string
	}
	admission struct {
		post
		epoch uint64
	}
	duty struct {
		proc int
		term
	}
)

// checker goes through a history once.
type checker struct {
	h          *History
	at         int
	violations []Violation
	found      map[string]bool

	claims   map[term]claimed
	first    map[electionEpoch]int     // the process that an epoch was first given to
	newest   map[string]uint64         // the highest epoch claimed, by election
	granted  map[grantee]uint64        // the last epoch granted
	regs     map[string]string         // the incarnation that each register shows
	whose    map[string]int            // the process of each incarnation
	sent     map[attempt]time.Duration // when each heartbeat was sent, by its sender's clock
	deadline map[keeper]time.Duration  // sent + D of the newest that its sender knows to have been applied
	known    map[keeper]time.Duration  // when its sender came to know that
	fences   map[post]uint64
	admitted map[admission]string // the term for which an epoch was accepted
	running  map[duty]bool
	stopped  map[string]time.Duration // when the last duty of an incarnation returned
	thawed   map[int]time.Duration    // when a process last was frozen, to the end
	begun    map[int]time.Duration    // when a process started, by its own clock
	dead     map[int]bool             // processes that have crashed

	shown   map[string]shown         // what each election's record shows
	lostAt  map[string]time.Duration // when a rollback last changed a register
	answers map[int]time.Duration    // from when on a process, or all for -1, gets answers again
	stored  map[string]bool          // checkpoints that were applied
	held    map[string]int           // how many elections an incarnation has claimed and not released
	owed    map[string]owed          // what leaders were asked for, by election
	ended   time.Duration            // when all faults had stopped
}

func (c *checker) fail(invariant, election, format string, args ...any) {
	if c.found[invariant] || !c.h.Class.holds(invariant) {
		return
	}

	c.found[invariant] = true
	c.violations = append(c.violations, Violation{invariant, c.at, election, fmt.Sprintf(format, args...)})
}

func (c *checker) take(e *Event) {
	switch e.Kind {
	case Started:
		c.begun[e.Proc] = e.Local
	case Request:
		if j := c.h.Procs[e.Proc].Jitter; e.Local < c.begun[e.Proc]+j {
			c.fail(R11, "", "p%d asks the store after %v, before its jitter of %v has passed", e.Proc,
				e.Local-c.begun[e.Proc], j)
		}
	case Sent:
		c.swapSent(e)
	case Known:
		if sent, ok := c.sent[attempt{e.Name, e.Who, e.Nonce}]; ok {
			k := keeper{e.Name, e.Who}
			c.deadline[k] = max(c.deadline[k], sent+c.h.Procs[e.Proc].Trust)
			c.known[k] = e.At
		}
	case Applied:
		c.applied(e)
	case Rolled:
		clear(c.regs) // what it shows now the next swap tells
	case Undone:
		c.undone(e)
	case Granted:
		c.grant(e)
	case Acting:
		c.acting(e)
	case Believed:
		c.believed(e)
	case Ended:
		delete(c.running, duty{e.Proc, term{e.Name, e.Epoch, e.Who}})
		c.stopped[e.Who] = e.At
	case Frozen:
		c.thawed[e.Proc] = max(c.thawed[e.Proc], e.At+e.Took)
	case Crashed:
		c.dead[e.Proc] = true
	case Accepted:
		c.accepted(e)
	case Led:
		if e.Proc < 0 {
			c.fail(I7, e.Name, "nobody leads %s within %v of the end of all faults", e.Name, c.h.Bound)
		} else {
			c.led(e)
		}
	case Stopping:
		c.stopping(e)
	case Saved:
		if !c.stored[e.Data] {
			c.fail(I9, e.Name, "p%d has saved a checkpoint of epoch %d of %s, and the store never took it", e.Proc,
				e.Epoch, e.Name)
		}
	case Killed:
		c.killed(e)
	case Answered:
		c.answered(e)
	case Disturbed:
		c.answers[e.Proc] = max(c.answers[e.Proc], e.At+e.Took)
	case Died:
		c.fail(I7, e.Name, "p%d has ended, although nobody stopped it: %s", e.Proc, e.Text)
	case Settled:
		c.ended = e.At
	}
}

// acting checks a duty that acts, whether or not it believes in its term. A process that was frozen
// may act in ignorance for as long as it has to stop.
func (c *checker) acting(e *Event) {
	if e.Valid {
		c.believed(e)
	}

	stop := c.h.Procs[e.Proc].Stop
	frozen, ok := c.thawed[e.Proc]
	if e.Stuck || ok && e.At <= frozen+stop+stop/100 {
		return
	}

	if n := c.newest[e.Name]; e.Epoch < n {
		c.fail(I2, e.Name, "p%d acts in epoch %d of %s after epoch %d began", e.Proc, e.Epoch, e.Name, n)
	}
}

// believed checks a member that says it leads.
func (c *checker) believed(e *Event) {
	cl, ok := c.claims[term{e.Name, e.Epoch, e.Who}]
	if !ok || cl.proc != e.Proc {
		c.fail(I5, e.Name, "p%d believes that it leads %s in epoch %d, which it was not given", e.Proc, e.Name, e.Epoch)
		return
	}

	if n := c.newest[e.Name]; e.Epoch < n {
		c.fail(I2, e.Name, "p%d believes that it leads %s in epoch %d after epoch %d began", e.Proc, e.Name, e.Epoch, n)
	}

	c.haunts(e, cl.via)
	if d := c.deadline[keeperOf(e, cl)]; e.Local >= d {
		c.fail(I6, e.Name, "p%d believes that it leads %s in epoch %d %v after its deadline", e.Proc, e.Name, e.Epoch,
			e.Local-d)
	}
}

// keeperOf returns what keeps a term alive.
func keeperOf(e *Event, cl claimed) keeper {
	if cl.via != "" {
		return keeper{cl.via, e.Who}
	}

	return keeper{e.Name, e.Who}
}

func (c *checker) accepted(e *Event) {
	at := post{e.Worker, e.Name}
	if high := c.fences[at]; e.Epoch < high {
		c.fail(I3, e.Name, "worker %d accepts epoch %d of %s after %d", e.Worker, e.Epoch, e.Name, high)
	}

	c.fences[at] = max(c.fences[at], e.Epoch)
	to := admission{at, e.Epoch}
	if first, ok := c.admitted[to]; ok && first != e.Who {
		c.fail(I13, e.Name, "worker %d accepts epoch %d of %s from the term of %s and from that of %s", e.Worker,
			e.Epoch, e.Name,
			short(first), short(e.Who))
	} else if !ok {
		c.admitted[to] = e.Who
	}

	if cl, ok := c.claims[term{e.Name, e.Epoch, e.Who}]; !ok || cl.proc != e.Proc {
		c.fail(I5, e.Name, "worker %d accepts epoch %d of %s from p%d, which it was not given", e.Worker, e.Epoch,
			e.Name, e.Proc)
	}
}
