package sim

// State is something that a simulation should come to. TestSeeds fails if no seed comes to one of
// them: what is never reached is not tested.
type State string

// The states that the default seeds must reach.
const (
	HungStore      State = "a store that hangs"
	HungClient     State = "a client that hangs"
	Withdrawn      State = "a candidate that withdraws while its claim is under way"
	Unreadable     State = "an unreadable register, while another election of its member has a leader"
	DriverPanic    State = "a driver that panics"
	AnsweredLate   State = "a claim that is answered after its member has given it up"
	ReaperKill     State = "a reaper that kills a frozen process"
	ReaperRelease  State = "a reaper that releases for a dead process"
	ReaperReplaced State = "a reaper that is replaced"
	SaveRefused    State = "a checkpoint of an ended term that is refused"
	SaveStalled    State = "a saver that stalls after it has asked whether its term is valid"
	ObeyedUnknown  State = "a request that is obeyed after a heartbeat of unknown outcome"
	Nagged         State = "a request to a dead leader that is repeated until another one leads"
	GhostOneLost   State = "a leader whose claim one register has lost"
	GhostTail      State = "a leader whose claim was lost with the tail of the log"
	GhostShard     State = "a leader whose claim was lost with the tail of one shard's log"
	RolledTwice    State = "a second rollback below the same epoch"
	GhostByFirst   State = "a lost claim that is found by the first read after it"
	GhostBySweep   State = "a lost claim that is found by a later read"
	GhostByNotice  State = "a lost claim that is found after a notice"
	SameEpochTwice State = "two terms with one epoch"
	RefusedTwin    State = "work that is refused because its epoch belongs to another term"
)

// States is every state that the default seeds must reach.
var States = []State{HungStore, HungClient, Withdrawn, Unreadable, DriverPanic, AnsweredLate, ReaperKill,
	ReaperRelease, ReaperReplaced,
	SaveRefused, SaveStalled, ObeyedUnknown, Nagged, GhostOneLost, GhostTail, GhostShard, RolledTwice, GhostByFirst,
	GhostBySweep, GhostByNotice, SameEpochTwice, RefusedTwin}

// reach notes that a state has come about.
func (s *simulation) reach(state State) {
	s.reachedMu.Lock()
	defer s.reachedMu.Unlock()
	s.reached[state]++
}
