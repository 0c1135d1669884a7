// Package core is the lease protocol of one member as a deterministic state machine: [Core.Step] takes in one thing
// that has happened, and returns what to do about it. It has no goroutines, locks, clocks, randomness, I/O or
// logging. What must be new or comes from outside (nonces, incarnations, the wall clock) comes from a [Source].
//
// internal/shell runs it on a store, and regent.Member on that. The same code is explored (internal/explore) and
// simulated (internal/sim/cores).
//
// # Reading order
//
// The rules are those of docs/ARCHITECTURE.md. A search for "rule 7" finds every place where that rule is kept.
//
//   - input.go, effect.go: what goes in and what comes out; view.go: what may be asked between two steps; record.go:
//     what a register goes through (what it holds is driver.Record)
//   - step.go: from an input to the effects, and from an answer to whoever waits for it
//   - election.go: an election; advanceElection is the one place where candidate, leader and former leader alternate,
//     and receive is what every record goes through that an answer shows
//   - candidate.go, claim.go and known.go, leader.go, former.go: what each of the three does; interest.go: who wants
//     an election; notice.go: notifications (rule 12)
//   - heartbeat.go, watch.go: the two sides of a lease: who keeps it, and who watches it expire
//   - rollback.go: a store that has lost writes (rule 5); shown.go: what answers show to others
//   - member.go, join.go: the member's own register; sweep.go: when held elections are read
//   - ending.go, event.go: why terms end, and which events say so
//   - save.go: checkpoints; request.go: requests to whoever leads
//   - rank.go, latency.go: who should claim a free election; roster.go, peer.go, order.go: the members, as they were
//     last listed; share.go: the sharing of many free elections
//   - watchers.go, idle.go: who watches a leader closely, and what the others do
//   - unhealthy.go: who should not lead, and who should lead instead; spread.go: the members of a fleet
//   - floor.go, retire.go: registers that nobody uses are removed, and no epoch comes again for that (rule 13)
//   - core.go, entity.go, queue.go, slab.go: the state, and what makes a step cost no more than what has changed
//   - clone.go, encode.go, encode_election.go, encode_roster.go, encode_retire.go: for the explorer
//
// # How it works
//
// There are six kinds of entity: the member, an election, a sight, which is a member register that elections of
// others depend on, the roster, which lists the members, the epoch floor, and a retirement, which is a register that is
// to be removed. Each has at most one request under way, so that answers never overtake each other, and a time at
// which it is due. An input changes the entities that it concerns and queues them; each is then advanced: it checks
// its state, does what is due, and says when it is due again. No step visits all elections or all members: what
// concerns all of them is done in portions. A list is taken in in portions, too, and the candidates are kept in their
// order.
//
// A request that is not answered within its timeout has an unknown outcome, and its answer is ignored from then on.
// So nothing waits for the store longer than that, and what ends at a deadline does not wait at all (rule 9).
//
// # What is covered
//
//   - Rules 1 to 13, for elections with a lease of their own and for those that depend on the member's heartbeat. One
//     core has one kind, and takes over from members of either.
//   - Claims, adoption of a claim after an unknown outcome, renewal, release, claims on notification, takeover
//     delay, polling with a growing interval, registers that cannot be read, back-off after failures.
//   - A store that loses writes: the highest epoch seen, the wait of one lease, two holders of one epoch, forgotten
//     joins, the read of what was won after the next heartbeat, and of what is held every half lease.
//   - Joining, waiting for another process with the same ID, revocation, leaving; messages for the reaper. A store that
//     can prove the death of a process (driver.Witness).
//   - Handoff, step-down, pause, resume, observed epochs, refusals by fences, checkpoints.
//   - What every answer shows, whoever asked and however late it comes, for rules 2 and 5.
//   - Why terms end, in events and in a record's past, and how long nobody led. Of the kinds of event that the regent
//     package lists the core sends all but four, which are the shell's: duty:failed, candidate:restarted,
//     member:health_changed and observer:panicked.
//   - What a member publishes about itself, and changes of it. Polls at moments that all elections share, so that the
//     shell can send them as a batch. Figures: see Stats.
//   - Ranks, preemption, the sharing of many free elections, the handover of an unhealthy leader, the last resort of a
//     member whose duties keep failing. The members are listed when one of these depends on it, and only then.
//   - What keeps the members of a fleet out of step. The phase of a member is drawn by the shell (Config.Phase).
package core
