package model

// Verb says what happens in a step, and what a request asks of the store.
type Verb uint8

// The verbs. Those before Tick are requests of a process to the store.
const (
	idle        Verb = iota
	Read             // get the record of an election
	Claim            // swap the record of an election to oneself, with the next epoch
	Renew            // swap the record of an election, or of a member, to show a new attempt
	Release          // swap the record of an election to vacant
	Join             // swap the record of a member to a new incarnation
	Leave            // swap the record of a member to vacant, as its holder
	Revoke           // swap the record of a member to vacant, after it has run out
	ReadSelf         // get the record of the own member
	ReadHolder       // get the record of the member that keeps an election, or a member ID, taken
	Tick             // time passes
	Apply            // the store applies or refuses a request
	Answer           // the process gets the answer
	LoseAnswer       // the answer never comes: the outcome is unknown, the request was applied
	LoseRequest      // the request never arrives: the outcome is unknown
	GiveUp           // the process stops waiting for a request that is still on its way
	ApplyLate        // such a request arrives
	Crash            // the process dies and starts again without memory; what it was sending is lost
	CrashLate        // the same, but what it was sending is still on its way
	End              // a member ends its incarnation
	Dispatch         // a leader sends a task to the worker
	Deliver          // a task reaches the worker
)

// isRead reports whether a request changes nothing.
func (v Verb) isRead() bool { return v == Read || v == ReadSelf || v == ReadHolder }

// Witness is a set of things that were shown to be reachable, against a model that is right because nothing happens
// in it.
type Witness uint32

// The witnesses.
const (
	TookOverRunOut     Witness = 1 << iota // an election was claimed that had not been released
	TookOverRelease                        // an election was claimed after a release
	Adopted                                // a lost answer was made good by a read
	AdoptedEarlier                         // the read showed an attempt that was not the last one
	AppliedLate                            // a request was applied after its sender had given up on it
	Conflicted                             // a swap was refused
	BelievedThroughGap                     // an answer came in a later tick than the request, and still counted
	VacatedUnknown                         // a process vacated an election that named it, and that it did not hold
	RefusedStale                           // the fence refused a task
	Revoked                                // an incarnation was revoked
	Rejoined                               // a member joined again while an election named its earlier incarnation
	JoinedOverOwn                          // a process joined over an incarnation that it had ended
	FreedByOneDeath                        // an election was found free since the heartbeat of its holder was gone
	Left                                   // a leave was applied
)

// record is what a register holds. Revisions, incarnations and nonces are numbers that are drawn once.
type record struct {
	rev    uint8
	holder uint8 // an incarnation; 0 is vacant
	via    uint8 // the member whose register keeps it alive
	epoch  uint8
	nonce  uint8 // the attempt that wrote it
}

// request is what a process asks of the store. For a swap, to is the new record, and to.rev the revision that it
// replaces.
type request struct {
	verb Verb
	at   uint8 // the register
	to   record
}

// call is a request that a process waits for.
type call struct {
	request
	age  uint8 // ticks since it was sent
	done bool  // the store has dealt with it, and the answer is on its way
	ok   bool  // what the answer says of a swap
	got  record
}

// attempt is a write that the process remembers: its nonce, and how long ago it was sent.
type attempt struct {
	nonce uint8
	age   uint8
}

// attempts are the last ones, newest first. Older ones are forgotten, and so count as not held (rule 3).
type attempts [2]attempt

func (a *attempts) add(nonce uint8) {
	a[1] = a[0]
	a[0] = attempt{nonce: nonce}
}

// find returns the place of the attempt with that nonce, or -1.
func (a *attempts) find(nonce uint8) int {
	for i := range a {
		if nonce != 0 && a[i].nonce == nonce {
			return i
		}
	}

	return -1
}

// tick makes all attempts one tick older; beyond enough ticks it makes no difference any more.
func (a *attempts) tick(enough uint8) {
	for i := range a {
		if a[i].nonce != 0 {
			a[i].age = min(a[i].age+1, enough)
		}
	}
}

// Unlimited is a number of faults without bound. The state space is finite all the same.
const Unlimited = 255

// faults are how many faults of each kind may still happen.
type faults struct {
	crashes  uint8
	losses   uint8 // unknown outcomes
	releases uint8 // releases and leaves for no reason
}

// take uses up one fault.
func take(left *uint8) {
	if *left != Unlimited {
		*left--
	}
}

// The numbers that Canon gives to revisions: only whether a remembered one is the current one matters to the store, and
// only whether an answer shows the remembered one matters to an observer.
const (
	revOther   = 1 // neither
	revSame    = 2 // remembered, but not current
	revCurrent = 3
	firstFresh = 16 // drawn numbers begin here
)

// expire forgets attempts that are so old that the deadline which they give has passed.
func (a *attempts) expire(d uint8) {
	for i := range a {
		if a[i].age >= d {
			a[i] = attempt{}
		}
	}
}

// renumber numbers the attempts by their places.
func (a *attempts) renumber() {
	for i := range a {
		if a[i].nonce != 0 {
			a[i].nonce = uint8(i + 1)
		}
	}
}

// split returns the things in a set, each by itself.
func (w Witness) split() (each []Witness) {
	for ; w != 0; w &= w - 1 {
		each = append(each, w&-w)
	}

	return each
}

// String names one thing.
func (w Witness) String() string {
	switch w {
	case TookOverRunOut:
		return "an election is claimed that was not released"
	case TookOverRelease:
		return "a vacant election is claimed"
	case Adopted:
		return "a lost answer is made good by a read"
	case AdoptedEarlier:
		return "a read shows an attempt that is not the last"
	case AppliedLate:
		return "a request is applied late"
	case Conflicted:
		return "a swap is refused"
	case BelievedThroughGap:
		return "a late answer still counts"
	case VacatedUnknown:
		return "an election names a process that does not hold it"
	case RefusedStale:
		return "the fence refuses a task"
	case Revoked:
		return "an incarnation is revoked"
	case Rejoined:
		return "a member joins again"
	case JoinedOverOwn:
		return "a process joins over an incarnation that it has ended"
	case FreedByOneDeath:
		return "an election is free since its holder's heartbeat is gone"
	case Left:
		return "a leave is applied"
	}

	return "several things"
}
