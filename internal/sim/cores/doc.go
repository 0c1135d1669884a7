// Package cores simulates clusters of pure cores (internal/core) under random faults: discrete events in virtual
// time, no goroutines. A seed determines a run completely, so that every run replays line by line (TestReplay).
//
// A run draws a cluster (members, elections, the kind of lease of each, clock rates, reapers, workers with fences),
// lets faults and requests happen for a while, and then heals everything. Faults of the store: it refuses, hangs, is
// slow, restarts, loses requests, answers and notifications, for one process or for all, in one direction or in both;
// it loses one write of one register, the tail of its log, or everything, once or twice. Faults of processes: they
// crash, freeze, leave, withdraw, lose their reaper, and stop their duties late. Two processes may have one ID.
//
// # What is checked
//
// The simulation keeps what each process was shown beside its core (view.go), and checks by that:
//
//   - at most one process leads an election: one whose deadline has not passed on its own clock. No duty runs beside
//     a later term, unless it overruns its stop timeout or its process was frozen. After the store has lost writes
//     neither is checked for two leases, nor for a process that has not asked for the election since: whoever saw
//     nothing of what was lost cannot know of it;
//   - the epochs of an election grow with every claim, and no epoch has two holders, where the store loses nothing.
//     Where it does, a claim still goes beyond everything that its process was shown;
//   - a record is taken from its holder only by one who has watched it for a lease and has read it again after the
//     takeover delay; after a rollback, or where a joining was forgotten, only a lease later; an election that
//     depends on a heartbeat only once that is gone;
//   - a checkpoint is written under its own term only, and one that was reported as saved was taken by the store;
//   - a release changes the record of its own process only, and keeps epoch, checkpoint and pause; an election that is
//     reserved goes to nobody else for a heartbeat interval; one that is paused is not claimed;
//   - nothing ends late because a request hangs (rule 9): the end of a term, the next join, the result of a request. No
//     heartbeat, claim or checkpoint is sent after its deadline; nothing is sent before the start-up jitter has passed;
//   - a process that is shown that it has lost its heartbeat ends everything; a term that a fence has refused ends,
//     and a fence never accepts an older epoch, two terms of one epoch, or a term that was not given;
//   - a reaper kills only who holds a term and has not ended it, and releases only for the dead;
//   - a belief that the store has lost ends within a lease and the time of a request;
//   - nobody sends requests, or is called, again and again.
//
// Checked at the end: once everything is healed, every election has a leader within a bound that follows from the
// configuration. RunLive checks the same where faults stop changing and stay as they are. mutants_test.go breaks each
// of these in turn, in the core, in the fence or in the simulation itself, and has the seeds find it.
//
// # What it writes
//
// A trace has one line for each input, decision and effect (trace.go). The traces in testdata are those of eight cases
// with fixed times, and TestGolden compares them.
package cores
