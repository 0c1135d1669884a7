// Package cores simulates clusters of pure cores (internal/core) under random faults: discrete events in virtual time, no
// goroutines. A seed determines a run completely, so that every run replays line by line.
//
// A run draws a cluster (members, elections, the kind of lease of each, durations, clock rates), lets faults and requests happen for a
// while, and then heals everything. Requests and answers are delayed or lost; processes crash, freeze and restart; the store
// is unreachable, for one process or for all; it loses writes; notifications are late or lost; duties take their time to stop.
//
// Checked all the time:
//
//   - at most one process leads an election: one whose deadline has not passed on its own clock. After the store has lost
//     writes this is not checked for two leases, nor for a process that could not read the election since: whoever saw
//     nothing of what was lost cannot know of it;
//   - the epochs of an election grow with every claim that is applied, and a claim goes beyond everything that its process
//     was shown, even where the store has lost writes;
//   - a checkpoint is written under the record's own term, and a release changes its own member's record only.
//
// Checked at the end: once everything is healed, every election that is not paused has a leader within a bound that follows
// from the configuration.
package cores
