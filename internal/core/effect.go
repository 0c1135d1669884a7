package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// Effect is one thing for the shell to do, in the order of the slice that Step returns.
type Effect interface{ effect() }

// Verb is what a request asks of the store.
type Verb uint8

// The verbs.
const (
	Get    Verb = iota // read the record of Name
	Swap               // write the record if the register's revision is still Rev
	Remove             // remove the register if its revision is still Rev
	Named              // find an election that somebody holds and whose record names Name as its heartbeat register
	List               // read all records whose names begin with Name
	Skim               // the same, but of each record all except its revision may be older
)

// The effects.
type (
	// Send asks for a request. The answer must come as an Answer with this ID; one that comes after the timeout is
	// ignored, and the outcome is unknown by then. Requests of one step may be sent as one batch. A List has that
	// time for each record, and ListTimeouts times as long in all.
	Send struct {
		ID      uint64
		Verb    Verb
		Record  driver.Record // for a Get, a List or Named, Name alone; for a Remove, Name, Rev and Epoch
		Timeout time.Duration
		Asked   bool  // somebody waits for the outcome: a checkpoint is written
		Urgent  bool  // a deadline depends on it: a heartbeat is written
		Seek    *Seek // where a List may end, if it need not show all records
		Witness bool  // also ask the store, if it can tell, whether the process that wrote the record is dead
	}
	// Begin starts a term. It is believed until the deadline, which Renewed moves.
	Begin struct {
		Election    string
		Epoch       uint64
		Incarnation string
		Register    string // the heartbeat register: whose Renewed counts for this term
		Deadline    Time
		Guard       Time // before the deadline: when the term ends, even if the core is not stepped in time (rule 7)
	}
	// End stops the duty of a term. The term is not believed any more.
	End struct {
		Election string
		Epoch    uint64
		Cause    Cause
		Detail   string // more about the cause, for people to read
		Next     string // the successor, if one was named
	}
	// Finished says that a term is over: its duty has stopped, and the election is released if the store took that.
	Finished struct {
		Election string
		Epoch    uint64
		Kept     bool // the store did not take the release
	}
	// Measured says that the latency of the store, as this member publishes it, has changed. It is so under rank
	// latency only.
	Measured struct{ Latency time.Duration }
	// Renewed is the new deadline of all terms that depend on a heartbeat register. A deadline in the past ends them,
	// for that cause; an End of each of them follows.
	Renewed struct {
		Register string
		Deadline Time
		Guard    Time  // as in Begin
		Cause    Cause // empty unless the heartbeat has ended
		Detail   string
	}
	// Lifeline is a message for the reaper.
	Lifeline struct {
		Register string
		Holder   driver.Identity
		Deadline Time
		Holds    bool // a term depends on it
		Stopped  bool // its duties have stopped and no other begins; the register may not be released yet
		Over     bool // and the register has been released: nothing is left to free
	}
	// Event is something for people to know.
	Event struct {
		Kind     EventKind
		Election string
		Epoch    uint64
		Holder   driver.Identity // the new leader, or the incarnation that the event is about
		Reason   string
		Register string // that cannot be read, or was removed
		Error    string // what is wrong, for people to read

		Previous       string        // the leader before
		PreviousReason string        // why its term ended
		Vacant         time.Duration // how long nobody led after that; -1 if not known
		Node           string        // whom it happened to, if that is another member
		ReportedBy     string        // this member then

		Took     time.Duration // how long the start-up jitter was; how long a heartbeat has taken, from when it was due
		Expected time.Duration // how long it should take at most
		Other    driver.Record // the register of the other process that has this member's ID
		Alive    bool          // that process is known to be alive
	}
	// Changed is the record of an election, for those who watch it.
	Changed struct{ Record driver.Record }
	// Learned is the highest epoch of an election that was seen anywhere, for fences.
	Learned struct {
		Election string
		Epoch    uint64
	}
	// Forgotten is an election whose highest epoch need not be remembered any more: the epoch floor covers it.
	Forgotten struct{ Election string }
	// Result answers a request that has an ID.
	Result struct {
		ID     uint64
		Result ResultCode
		Epoch  uint64 // the epoch that the election is in
		Err    error  // what the store said, if a Save has failed by that
	}
	// Withdrawn answers every Withdraw of an election before it: the candidacy has ended, and its term with it. A
	// candidacy that ends because its duty returned has an End and a Finished, and no Withdrawn.
	Withdrawn struct{ Election string }
	// Wake is when to call Step with a Tick, at the latest. It is the last effect, and left out if it has not changed.
	Wake struct{ At Time }
	// Subscribe says, once, that notifications are of use from now on. Members of a fleet do not all ask for them at
	// once.
	Subscribe struct {
		Members bool // notifications of all member registers are of use
	}

	// Follow says that notifications of a register are of use from now on: of an election that somebody is interested
	// in, or of the heartbeat register of its holder.
	Follow struct{ Name string }
	// Unfollow says that notifications of a register are of no more use.
	Unfollow struct{ Name string }
	// Decision says what was decided and by which rule, before the effects of that, if Config.Explain asks for it. A
	// shell has nothing to do about it.
	Decision struct {
		Rule int    // its number, or 0 for what has none
		Name string // the register that it is about
		What string
	}
	// Closed says that nothing is left to do.
	Closed struct {
		// the member register is known to be vacant, or this process never tried to write it and saw no other's
		Left bool
	}
)

func (Send) effect()      {}
func (Begin) effect()     {}
func (End) effect()       {}
func (Finished) effect()  {}
func (Renewed) effect()   {}
func (Lifeline) effect()  {}
func (Event) effect()     {}
func (Changed) effect()   {}
func (Learned) effect()   {}
func (Forgotten) effect() {}
func (Result) effect()    {}
func (Withdrawn) effect() {}
func (Wake) effect()      {}
func (Subscribe) effect() {}
func (Follow) effect()    {}
func (Unfollow) effect()  {}
func (Closed) effect()    {}
func (Decision) effect()  {}
func (Measured) effect()  {}

// Spent returns how much work the last step was, in units of one advanced entity.
func (c *Core) Spent() int { return c.spent }

// EventKind is what an event is about, as noun:verb.
type EventKind string

// The kinds of event.
const (
	EventBecameLeader   EventKind = "coordinator:became_leader"
	EventLostLeadership EventKind = "coordinator:lost_leadership"
	EventLeaderChanged  EventKind = "coordinator:leader_changed"
	EventRegressed      EventKind = "store:regressed"
	EventUnreadable     EventKind = "register:unreadable"
	EventStarted        EventKind = "member:started"
	EventJoined         EventKind = "member:joined"
	EventLeft           EventKind = "member:left"
	EventDropped        EventKind = "member:dropped"
	EventWaiting        EventKind = "member:waiting"
	EventContention     EventKind = "contention:detected"
	EventDutyStuck      EventKind = "duty:stuck"
	EventRetired        EventKind = "store:retired"
)

// Cause is why a term ended.
type Cause string

// The causes, as they stand in events and in a record's past.
const (
	Shutdown    Cause = "shutdown"
	Returned    Cause = "returned"
	Lost        Cause = "lost lease"
	Partitioned Cause = "partition"
	HandedOff   Cause = "handoff"
	SteppedDown Cause = "stepped down"
	Paused      Cause = "paused"
	FencedOff   Cause = "fenced"
	Panicked    Cause = "panic" // of the driver; a Close carries it
	Unhealthy   Cause = "unhealthy"
)

// ResultCode is how a request ended.
type ResultCode uint8

// The results.
const (
	OK             ResultCode = iota
	NotLeader                 // a Save: this member does not lead the election in that epoch
	OutcomeUnknown            // a Save: it may have been written, or may still be
	Moved                     // the election is not in the epoch that was asked about, or makes way for somebody else
	NobodyLeads               // a HandOff or StepDown
	LeadsAlready              // a HandOff
	IsPaused                  // a HandOff: nobody could take over
	Unanswered                // the store did not take the request in time
	InUse                     // a Retire: the register is held, has changed, or must be kept
)
