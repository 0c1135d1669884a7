// Package explore runs real cores (internal/core) against a small store, in every order of events within its
// bounds. What is checked is the code of the protocol, not a model of it.
//
// A [Setup] says who takes part and how many faults of each kind may happen. [Explore] visits all states breadth
// first and checks, in each of them:
//
//   - at most one process leads an election: one whose deadline has not passed on its clock;
//   - the epochs of an election grow with every claim that the store applies;
//   - a claim never replaces the record of a live leader, and nobody ends an incarnation under which somebody leads;
//   - no term begins in an epoch that an election had before, whatever was removed from the store in between (rule 13);
//   - a store that has lost nothing is not reported to have lost writes;
//   - a release vacates its own member's record only; a checkpoint is written under the record's own term only;
//   - nobody claims a paused election; no term begins beside a duty that still has time to stop (rule 7);
//   - the epochs that a worker accepts behind a regent.Fence never fall, and each belongs to one term;
//   - a reaper kills no process that leads by a lease in force, and none of which no duty runs; what it frees by
//     regent.Reap is never a live lease;
//   - from every state, a run without further faults leads to one in which somebody leads. In such a run time
//     passes only when nothing else is left to do.
//
// Time passes in ticks of a second, on all clocks alike: the error of the clocks is part of D (rule 1). Whatever is
// to be done at a moment may be done in any order; a tick that passes although something is left to do is a freeze,
// of a process or of a request, and is counted. A request whose process has given up waiting may still be applied
// later. A process that sleeps does nothing, and gets no answer, for however long.
//
// Where the store may lose writes, at most one leader is checked for those who can know: for a process that was
// shown the other's term and the heartbeat that the other relies on.
//
// Two states count as one if the cores encode alike (core.Core.Encode): revisions, nonces and incarnations are
// renumbered, and times are counted from now. Epochs that are further than 4 from that of the register count as
// one. A state is known by a hash of 128 bits. A test goes at random through worlds as they are, and checks that each
// of them was explored.
//
// The default run takes less than a minute of processor time. The larger ones need a flag:
//
//	go test ./internal/explore -run Holds -v -explore.deep -timeout 3h
package explore
