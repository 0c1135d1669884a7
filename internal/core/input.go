package core

import (
	"math"
	"time"

	"github.com/regentd/regent/driver"
)

// Time is a moment on the member's clock, in nanoseconds. That clock counts while the machine is suspended (rule 8:
// the shell passes CLOCK_BOOTTIME, and nothing here compares anything else).
type Time int64

// Never is later than every moment.
const Never Time = math.MaxInt64

// Add returns t + d, or Never if that is beyond the clock: a record can carry any duration.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && t > Never-Time(d) {
		return Never
	}
	return t + Time(d)
}

// Config is how a core behaves. The shell has validated it.
type Config struct {
	ID   string // of the member
	Addr string // where others can reach it

	LeaseDuration       time.Duration   // W
	OwnLease            bool            // each election is renewed by itself, not by the member's heartbeat
	RenewInterval       time.Duration   // how often an election with a lease of its own is renewed
	RenewBackoff        []time.Duration // the waits between the tries of a failing renewal
	StopTimeout         time.Duration   // G
	ElectionInterval    time.Duration   // how often a candidate reads the election, without notifications
	ElectionIntervalMax time.Duration   // what ElectionInterval doubles to while nothing changes
	TakeoverDelay       time.Duration   // what a silent leader gets on top of its lease
	HeartbeatInterval   time.Duration   // how often a member renews its register
	WorkerTimeout       time.Duration   // the lease of a member register on which no election depends
	StartDelay          time.Duration   // the start-up jitter, drawn by the shell
	StartDelayMax       time.Duration   // the longest start-up jitter; the member is one of a fleet if it is positive
	// the member's own among the members of a fleet: from 0 to 1, drawn by the shell
	Phase               float64
	Restarted           bool          // it follows a core of the same process that has died: this is no start
	Register            bool          // write a member register even where no election depends on it
	Eligible            bool          // may lead
	CheckHealth         bool          // lead only after a health result that says so
	Rest                time.Duration // how long a register stays as it is before it is removed; 0 if none ever is
	Info                []byte        // what the member register carries about the member, until a Publish
	ContentionThreshold float64       // of intervals that a heartbeat may take before it is reported; 0 for any
	Rank                string        // who should win when several could: see the constants
	Priority            int           // under rank priority: the higher, the better
	Region              string        // under rank region
	Latency             time.Duration // under rank latency: as published before; 0 if it was not measured
	Preempt             bool          // ask a leader of lower rank to hand over
	Watchers            int           // how many candidates watch a leader closely; 0 for all
	Explain             bool          // say which rule decides what: see Decision
}

// Source is where a core gets what must be new or from outside. It is the only thing that a core calls.
type Source interface {
	// Nonce returns a number that was never returned before, in any process.
	Nonce() uint64
	// Incarnation returns a name that was never returned before, in any process.
	Incarnation() string
	// Wall returns the wall clock. It stands in records for people to read, and decides nothing.
	Wall() time.Time
}

// Input is one thing that has happened.
type Input interface{ input() }

// The inputs. Requests that have an ID are answered by one Result with that ID.
type (
	// Join starts the member: after the start delay it may send requests.
	Join struct{}
	// Campaign makes the member a candidate in an election.
	Campaign struct{ Election string }
	// Withdraw ends a candidacy, and the term with it. Withdrawn is its effect, also if a Campaign comes before that.
	Withdraw struct{ Election string }
	// Watch and Unwatch begin and end somebody's interest in an election without a candidacy.
	Watch struct{ Election string }
	// Unwatch ends what Watch began.
	Unwatch struct{ Election string }
	// Answer is what became of a request that was sent.
	Answer struct {
		ID      uint64
		Outcome Outcome
		Record  driver.Record // as read, or as written with its new revision
		Gone    bool          // if Send.Witness asked for it: the process that wrote the record is proved dead
		Error   string        // what the store said, if it failed; for people to read
		Err     error         // the same, for whoever asked for a checkpoint; the core does not use it

		Records []driver.Record // of a List or a Skim: those that could be read
		Partial bool            // of a List: it has ended where Send.Seek says, with the last of them
	}
	// Notice is a notification. Without a Name anything may have changed; without a Rev the register of that name has;
	// else the record is the one that was written.
	Notice struct{ Record driver.Record }
	// Tick says that time has passed.
	Tick struct{}
	// DutyStopped says that nothing of a term runs any more. Before an End, it says that the duty returned by itself.
	DutyStopped struct {
		Election string
		Epoch    uint64
	}
	// Expired says that the shell has ended the terms that depend on a heartbeat, before its deadline, without
	// waiting for an End. It comes before the DutyStopped of these terms.
	Expired struct {
		Register    string
		Incarnation string
	}
	// Health is whether the member should lead.
	Health struct {
		Healthy     bool // its health check says so, or it has none
		DutyFailing bool // a duty keeps failing: it leads only if nobody healthy is there
	}
	// Publish changes what the member register carries about the member. Others read it with the next heartbeat.
	Publish struct{ Info []byte }
	// Shown is a record that the store has shown to somebody who asked through this member, without the core.
	Shown struct{ Record driver.Record }
	// HandOff asks whoever leads, this member or any other, to hand over to another.
	HandOff struct {
		ID       uint64
		Election string
		To       string
		AtEpoch  uint64 // the epoch that whoever asks has seen; 0 for any
	}
	// StepDown asks whoever leads to release the election.
	StepDown struct {
		ID       uint64
		Election string
		AtEpoch  uint64
	}
	// Pause keeps everybody from claiming an election; Resume ends that.
	Pause struct {
		ID       uint64
		Election string
		AtEpoch  uint64
	}
	// Resume ends a pause.
	Resume struct {
		ID       uint64
		Election string
		AtEpoch  uint64
	}
	// Save writes a checkpoint under a term.
	Save struct {
		ID       uint64
		Election string
		Epoch    uint64
		Data     []byte
	}
	// Observed reports an epoch that somebody else has seen, a fence for example.
	Observed struct {
		Election string
		Epoch    uint64
	}
	// Fenced reports that a receiver of work has refused a term.
	Fenced struct {
		Election string
		Epoch    uint64 // of the term that was refused
		Newest   uint64
	}
	// Retire removes a register that nobody uses any more: of an election, or of a member. It takes as long as the
	// register must stay as it is: Idle, and at least Config.Rest.
	Retire struct {
		ID       uint64
		Register string
		Idle     time.Duration
	}
	// Close ends all terms, releases what is held and leaves. Closed is its effect.
	Close struct {
		Cause Cause // Shutdown if empty
	}
)

func (Join) input()        {}
func (Campaign) input()    {}
func (Withdraw) input()    {}
func (Watch) input()       {}
func (Unwatch) input()     {}
func (Answer) input()      {}
func (Notice) input()      {}
func (Tick) input()        {}
func (DutyStopped) input() {}
func (Expired) input()     {}
func (Health) input()      {}
func (Publish) input()     {}
func (Shown) input()       {}
func (HandOff) input()     {}
func (StepDown) input()    {}
func (Pause) input()       {}
func (Resume) input()      {}
func (Save) input()        {}
func (Observed) input()    {}
func (Fenced) input()      {}
func (Retire) input()      {}
func (Close) input()       {}
