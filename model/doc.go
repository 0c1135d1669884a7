// Package model checks the lease protocol of Regent by visiting every state that it can reach.
//
// There are two machines. [Own] is the protocol with Via empty, in which an election's own record is renewed. [Via] is
// the protocol in which an election names an incarnation of a member, and the member's heartbeat register keeps it
// alive: one revocation frees all its elections, and two processes may have the same ID. [Explore] visits their states
// breadth first and checks four properties:
//
//   - S1, [OneLeader]: never do two processes believe at once that they lead. A process believes while its clock is
//     before its deadline.
//   - S2, [FenceHolds]: the epochs that a worker accepts never fall, whatever way the tasks took.
//   - S3, [OneGrant]: no epoch is granted twice.
//   - L1, [NeverStuck]: from every state a run without further faults leads to one in which the election is held by a
//     process that believes in it. In such a run nobody who is alive lets its deadline pass, so that a holder which
//     keeps its heartbeat up and does not believe in its election blocks it for ever.
//
// A [Mutant] is the protocol with one rule left out. The protocol itself must pass; each mutant must fail, by the
// shortest trace. What makes a pass worth something is that faults really happen in it, so each configuration names
// what it must reach: see [Witness].
//
// It is a copy of the protocol. internal/explore explores the code itself, with more kinds of faults, and has a
// mutant of the code for each one here. This package stays because it has no timers: it exhausts any number of pauses
// under a member's heartbeat, which the explorer cannot. docs/DECISIONS.md compares the two.
//
// # What is modelled
//
// Time passes in ticks, at any moment. A process that does nothing while it does is paused. A swap is sent, reaches the
// store, and is answered, in three steps with anything in between; the request may be lost, or the answer, and the
// process may give up on a request that is applied later. After an unknown outcome it reads, and knows its attempts by
// their nonces. A process may crash and start again without memory, or never. It may release an election, or leave.
// Tasks overtake one another. Under Via, processes join, send heartbeats, watch those of others run out, revoke them,
// end their incarnation when its deadline has passed, and join again.
//
// # What is not
//
//   - Clock rates: all clocks tick together. The error r and the time G to stop duties are in the distance between D
//     and W (rule 1).
//   - Waits that decide nothing: jitter, back-off, takeover delay, ranks, reservations, pushes. A step that may
//     happen happens at any time, so every way of waiting is included.
//   - The reaper: to the others it is a leave that somebody else sends, after a crash.
//   - A store that forgets (rule 5), and one that expires records by itself.
//   - Two requests of one process at once. Under Via a process that waits for an answer sends no heartbeat until it
//     gets it or gives up.
//   - A process remembers its last two attempts, and its last claim of each election. Others count as not held
//     (rule 3).
//   - At most two late requests and two tasks are on their way at once.
//
// Nothing else is bounded in Own, and only the number of faults in Via: revisions, nonces, incarnations and epochs
// are renumbered, times are counted back from now, and states that behave alike are one. That is Canon; a test walks
// through plain states to see that it does not change what can happen.
//
// # How to read a trace
//
//	15  t=3   p1's claim reaches the store  election r22 e2 held by p1, n21; p0 LEADS e1 for 1
//
// is step 15, three ticks after the beginning; p1's claim is applied; now the election has revision 22 and epoch 2, and
// shows p1's attempt 21, but p0 believes for one more tick that it leads with epoch 1. Under Via, i24=p1 is an
// incarnation and the process that runs as it.
//
// The default run takes seconds. The large configurations, for a soak, need -model.deep:
//
//	go test ./model -run Holds -v -model.deep -timeout 2h
package model
