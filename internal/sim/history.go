package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// History is all that a simulation has recorded, in the order in which it happened.
type History struct {
	Seed      uint64
	Class     Class
	Elections []string
	Procs     []Proc
	Bound     time.Duration // within which every election has a leader once the faults have stopped
	Events    []Event

	Reached map[State]int // how often each state of interest came about
}

// Class says which assumptions a seed keeps, and so which invariants must hold: check.go says
// which.
type Class uint8

// The classes.
const (
	Assumed  Class = iota // clocks within the assumed error, a store that forgets nothing
	Beyond                // clocks far beyond the assumed error
	Rollback              // the store is restored from a backup, and every candidate remembers more than it shows
	Lossy                 // the store loses its last writes, of all registers or of some, and keeps revisions
)

func (c Class) String() string { return [...]string{"assumed", "beyond", "rollback", "lossy"}[c] }

// Proc is one run of one process.
type Proc struct {
	ID     string
	Rate   float64
	Lease  time.Duration // W
	Trust  time.Duration // D, computed here from the rule and not taken from the code under test
	Stop   time.Duration // G
	Delay  time.Duration // takeover delay
	Jitter time.Duration // least start-up jitter
	Own    bool          // elections have leases of their own
	Pipe   time.Duration // how long a message to its reaper takes

	Witness bool // its store proves the death of processes
	Stalls  bool // goroutines of its duties stall between a check and a swap
	Spins   int  // the most timers of the shortest time that it has set within spinWindow
}

// trust is D of rule 1: W(1-2r) - G, with r = 0.1 %.
func trust(w, g time.Duration) time.Duration { return w - w*2/1000 - g }

// Kind is a kind of event.
type Kind uint8

// The kinds of event.
const (
	Started   Kind = iota // a process starts
	Request               // its first request of any kind is sent
	Sent                  // a swap is sent; Op says what it is for
	Known                 // an answer that shows a heartbeat of its own has reached a process
	Applied               // a swap is applied by the store
	Rolled                // the store has gone back
	Granted               // a process begins a term
	Acting                // a duty acts
	Believed              // a process says that it leads
	Ended                 // a duty has returned
	Accepted              // a worker has taken work
	Refused               // a worker has refused work
	Frozen                // a process stops for a while, Took long
	Crashed               // a process dies
	Done                  // a process has stopped in good order
	Acted                 // something else, for the reader
	Settled               // all faults have stopped
	Led                   // an election has had a leader in time after Settled; Proc is -1 if it has not
	Undone                // a rollback has changed a register; Who and Epoch are what it shows now
	Stopping              // a duty has noticed that its context has ended
	Saved                 // a checkpoint was saved, as the member says
	Killed                // a reaper kills its process; Name and Who are the lifeline that was not renewed
	Answered              // a request that somebody made has returned, Took after its context had ended
	Disturbed             // a process, or all if Proc is -1, may get no answer from the store for Took
	Died                  // a process has ended that nobody had stopped
)

// Op is what a swap is for.
type Op uint8

// The purposes of a swap.
const (
	NoOp    Op = iota
	Join       // a member's register shows a new incarnation
	Beat       // a heartbeat
	Claim      // an election gets a new holder
	Release    // a record is made vacant by the process whose name it bears
	Revoke     // a record is made vacant by another
	Save       // a checkpoint
	Edit       // anything else: a pause, a request to hand over, a poke
	Reap       // a record is made vacant by the reaper of the process whose name it bears; Proc is that process
)

func (o Op) String() string {
	return [...]string{"", "join", "beat", "claim", "release", "revoke", "save", "edit", "reap"}[o]
}

// Event is something that happened.
type Event struct {
	At    time.Duration // virtual time since the start
	Local time.Duration // on the clock of Proc
	Kind  Kind
	Op    Op
	Proc  int    // index of the process; -1 for none
	Name  string // the register, or the election
	Epoch uint64
	Valid bool // Acting: the term was valid; Granted: it has a duty; Killed: it leads, as it says itself
	Stuck bool // Acting: the duty is past the time that it has to stop

	// Of Sent, Known and Applied.
	Nonce    uint64
	Who      string // the incarnation that the record shows, or that of the term
	Via      string
	Old      string // Applied: the incarnation before
	OldVia   string
	OldEpoch uint64
	OldLease time.Duration
	SameID   bool   // Applied: the record before showed a member of the same ID
	Lost     bool   // Applied: the checkpoint or the pause of an election was lost with a change of hands
	Next     string // Applied: an election that is held is asked to be given to
	Data     string // Applied: the checkpoint; Granted: the one that the term reads; Saved: the one that was saved
	OldData  string // Applied: the checkpoint before

	// What the process knew of the record that it replaces, when it sent the swap, by its own clock.
	Watched   time.Duration // since it first received that revision
	Confirmed time.Duration // from that until it sent the last read that still showed it
	Fell      bool          // a claim: the process had seen a higher epoch than that of the record, or of its heartbeat
	Waited    time.Duration // a claim that Fell: since the process first saw that

	Worker int           // Accepted, Refused
	Took   time.Duration // Frozen, Answered, Disturbed
	Text   string
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%13.6fs ", e.At.Seconds())
	if e.Proc >= 0 {
		fmt.Fprintf(&b, "p%-2d ", e.Proc)
	} else {
		b.WriteString("    ")
	}

	name := strings.TrimPrefix(e.Name, "regent/")
	switch e.Kind {
	case Started:
		fmt.Fprintf(&b, "starts %s", e.Text)
	case Request:
		b.WriteString("sends its first request")
	case Sent:
		fmt.Fprintf(&b, "sends %s %s epoch %d %s", e.Op, name, e.Epoch, short(e.Who))
	case Known:
		fmt.Fprintf(&b, "knows that a heartbeat of %s on %s was applied", short(e.Who), name)
	case Applied:
		fmt.Fprintf(&b, "APPLIED %s %s: %s epoch %d -> %s epoch %d", e.Op, name, short(e.Old), e.OldEpoch,
			short(e.Who), e.Epoch)
		if e.Op == Revoke || e.Op == Claim && e.Old != "" {
			fmt.Fprintf(&b, " (watched %v, confirmed %v of %v)", e.Watched, e.Confirmed, e.OldLease)
		}
	case Rolled:
		b.WriteString("THE STORE GOES BACK " + e.Text)
	case Undone:
		fmt.Fprintf(&b, "ROLLED BACK %s: %s epoch %d -> %s epoch %d", name, short(e.Old), e.OldEpoch, short(e.Who),
			e.Epoch)
	case Stopping:
		fmt.Fprintf(&b, "has to end term %d of %s", e.Epoch, name)
	case Saved:
		fmt.Fprintf(&b, "has saved %q in %s", e.Data, name)
	case Killed:
		fmt.Fprintf(&b, "IS KILLED BY ITS REAPER for %s of %s", short(e.Who), name)
	case Answered:
		fmt.Fprintf(&b, "has an answer %v after it gave up asking %s", e.Took, e.Text)
	case Disturbed:
		fmt.Fprintf(&b, "may get no answers for %v: %s", e.Took, e.Text)
	case Died:
		b.WriteString("HAS ENDED, although nobody stopped it: " + e.Text)
	case Granted:
		fmt.Fprintf(&b, "begins term %d of %s", e.Epoch, name)
	case Acting:
		fmt.Fprintf(&b, "acts in term %d of %s, valid %t, stuck %t", e.Epoch, name, e.Valid, e.Stuck)
	case Believed:
		fmt.Fprintf(&b, "believes that it leads %s in epoch %d", name, e.Epoch)
	case Ended:
		fmt.Fprintf(&b, "stops its duty of term %d of %s", e.Epoch, name)
	case Accepted:
		fmt.Fprintf(&b, "worker %d accepts its work for %s of epoch %d", e.Worker, name, e.Epoch)
	case Refused:
		fmt.Fprintf(&b, "worker %d refuses its work for %s of epoch %d", e.Worker, name, e.Epoch)
	case Frozen:
		fmt.Fprintf(&b, "is frozen for %v", e.Took)
	case Crashed:
		b.WriteString("crashes")
	case Done:
		b.WriteString("has stopped")
	case Acted:
		b.WriteString(e.Text)
	case Settled:
		b.WriteString("ALL FAULTS STOP")
	case Led:
		if e.Proc < 0 {
			fmt.Fprintf(&b, "nobody leads %s", name)
		} else {
			fmt.Fprintf(&b, "leads %s in epoch %d", name, e.Epoch)
		}
	}

	return b.String()
}

func short(incarnation string) string {
	if incarnation == "" {
		return "vacant"
	}

	return incarnation[:min(4, len(incarnation))]
}

// Write prints the last n events that have to do with an election, or all of them for n = 0.
func (h *History) Write(w io.Writer, election string, n int) {
	keep := make([]Event, 0, len(h.Events))
	for _, e := range h.Events {
		if election == "" || !slices.Contains(h.Elections, e.Name) || e.Name == election {
			keep = append(keep, e)
		}
	}

	if n > 0 && len(keep) > n {
		keep = keep[len(keep)-n:]
	}

	for _, e := range keep {
		fmt.Fprintln(w, e)
	}
}

// Lines is the history as far as a seed decides it: without nonces and incarnations, which are
// random, and sorted where things happened at one instant, which has no order.
func (h *History) Lines() []string {
	lines := make([]string, len(h.Events))
	for i, e := range h.Events {
		lines[i] = fmt.Sprintf("%13d p%d kind %d %s %s epoch %d %t", e.At, e.Proc, e.Kind, e.Op, e.Name, e.Epoch,
			e.Valid)
	}

	slices.Sort(lines)
	return lines
}
