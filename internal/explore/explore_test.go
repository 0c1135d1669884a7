package explore

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
)

var deep = flag.Bool("explore.deep", false, "explore the large setups too: some hours, and some GiB")

// ticks returns a configuration in which a leader relies on a heartbeat for two ticks, and an observer waits for
// three.
func ticks(own bool) core.Config {
	return core.Config{
		LeaseDuration:       3 * time.Second,
		StopTimeout:         900 * time.Millisecond,
		RenewInterval:       time.Second,
		HeartbeatInterval:   time.Second,
		ElectionInterval:    time.Second,
		ElectionIntervalMax: time.Second,
		WorkerTimeout:       3 * time.Second,
		RenewBackoff:        []time.Duration{500 * time.Millisecond},
		Eligible:            true,
		OwnLease:            own,
	}
}

// longer returns a configuration in which a leader relies on a heartbeat for three ticks, and an observer waits for
// five.
func longer(own bool) core.Config {
	cfg := ticks(own)
	cfg.LeaseDuration = 5 * time.Second
	cfg.WorkerTimeout = 5 * time.Second
	cfg.StopTimeout = 1900 * time.Millisecond
	return cfg
}

// delayed returns a configuration in which an observer waits for one tick more than the lease (rule 10).
func delayed(own bool) core.Config {
	cfg := ticks(own)
	cfg.TakeoverDelay = time.Second
	return cfg
}

var (
	two    = []string{"a", "b"}
	three  = []string{"a", "b", "c"}
	shared = []string{"a", "a"}
)

// size is how long a setup takes.
type size uint8

const (
	small size = iota // always
	large             // not with -short or -race
	huge              // with -explore.deep only
)

type setup struct {
	size
	Setup
	shows Witness
}

func (s *setup) skip(t *testing.T) {
	t.Helper()
	switch {
	case s.size == huge && !*deep:
		t.Skip("explored with -explore.deep")
	case s.size == large && (testing.Short() || virtual.Raced) && !*deep:
		t.Skip("explored without -short and -race")
	}
}

// holds explores a setup, which must have no violation and must show what it is there to show.
func (s *setup) holds(t *testing.T, own bool) {
	t.Helper()
	s.complete(own)
	r := Explore(s.Setup)
	t.Logf("%d states, %d steps, depth %d, in %v: %v", r.States, r.Steps, r.Depth, r.Elapsed.Round(time.Millisecond),
		r.Seen)
	if r.Failure != nil {
		t.Fatalf("%s\n%s", r.Failure.Violation, strings.Join(r.Failure.Trace, "\n"))
	}
	if !r.Whole {
		t.Fatal("the state space was not exhausted")
	}
	if missing := s.shows &^ r.Seen; missing != 0 {
		t.Errorf("not reached: %v", missing)
	}
}

func (s *Setup) complete(own bool) {
	if s.Config.LeaseDuration == 0 {
		s.Config = ticks(own)
	}
	s.Elections = max(s.Elections, 1)
}

func TestOwnLeaseHolds(t *testing.T) {
	for name, c := range map[string]setup{
		"for_two_processes": {small,
			Setup{IDs: two, Prompt: true, Freezes: 3, Late: 1, Reads: InstantReads},
			TookOverExpired | TookOverReleased | AppliedLate | Conflicted | GaveBack},
		"with_reads_that_are_sent_late": {small,
			Setup{IDs: two, Prompt: true, Freezes: 2, Late: 1, Reads: AtomicReads},
			TookOverExpired | AppliedLate | Conflicted},
		"with_slow_reads": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, Late: 1},
			TookOverExpired | AppliedLate | Conflicted},
		"when_outcomes_are_unknown": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, Losses: 2, Late: 1, Reads: InstantReads},
			TookOverExpired | Adopted | AppliedLate | Conflicted | GaveBack},
		"when_a_process_crashes": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, Crashes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | AppliedLate},
		"when_the_store_loses_writes": {small,
			Setup{IDs: two, Prompt: true, Rollbacks: 1, Undo: 2, Late: 1, Reads: InstantReads},
			TookOverExpired | WaitedForRollback},
		"when_the_store_loses_writes_twice": {large,
			Setup{IDs: two, Prompt: true, Rollbacks: 2, Undo: 2, Late: 1, Reads: InstantReads},
			TookOverExpired | WaitedForRollback},
		"when_a_leader_steps_down": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, StepDowns: 1, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"when_a_duty_stops_late": {large,
			Setup{IDs: two, Prompt: true, Freezes: 1, StepDowns: 1, Late: 1, SlowDuty: true, Reads: InstantReads},
			TookOverReleased},
		"when_a_leader_hands_over": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, HandOffs: 1, Late: 1, Reads: InstantReads},
			HandedOver},
		"with_notifications": {large,
			Setup{IDs: two, Prompt: true, StepDowns: 1, Notices: true, Late: 1, Reads: InstantReads},
			TookOverReleased | ClaimedOnNotice},
		"when_a_leader_saves": {large,
			Setup{IDs: two, Prompt: true, Saves: 2, Losses: 1, Late: 1, Reads: InstantReads},
			Saved | AppliedLate},
		"when_a_process_leaves": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, Closes: 1, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"for_two_processes_with_one_id": {small,
			Setup{IDs: shared, Prompt: true, Freezes: 1, Crashes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired},
		"with_a_takeover_delay": {small,
			Setup{IDs: two, Config: delayed(true), Prompt: true, Freezes: 1, Crashes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | AppliedLate},
		"with_a_longer_lease": {large,
			Setup{IDs: two, Config: longer(true), Prompt: true, Freezes: 2, Crashes: 1, Late: 2, Reads: InstantReads},
			TookOverExpired | AppliedLate | Conflicted},
		"with_a_longer_lease_and_five_freezes": {huge,
			Setup{IDs: two, Config: longer(true), Prompt: true, Freezes: 5, Late: 2, Reads: InstantReads},
			TookOverExpired | AppliedLate | Conflicted | GaveBack},
		"with_a_longer_lease_frozen_at_any_time": {huge,
			Setup{IDs: two, Config: longer(true), Late: 1, Reads: InstantReads},
			TookOverExpired | TookOverReleased | AppliedLate | Adopted | GaveBack},
		"for_three_processes_with_a_longer_lease": {huge,
			Setup{IDs: three, Config: longer(true), Prompt: true, Freezes: 1, Crashes: 1, Late: 2, Reads: InstantReads},
			TookOverExpired | AppliedLate},
		"for_two_elections": {small,
			Setup{IDs: two, Elections: 2, Prompt: true, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"for_three_processes": {large,
			Setup{IDs: three, Prompt: true, Freezes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired},
		"for_two_processes_frozen_at_any_time": {huge,
			Setup{IDs: two, Late: 1, Reads: InstantReads},
			TookOverExpired | TookOverReleased | AppliedLate | Adopted | GaveBack},
		"for_two_processes_with_two_late_requests": {huge,
			Setup{IDs: two, Prompt: true, Freezes: 4, Late: 2, Reads: AtomicReads},
			TookOverExpired | TookOverReleased | AppliedLate | GaveBack},
		"with_every_fault_once": {huge,
			Setup{IDs: two, Prompt: true, Freezes: 2, Losses: 1, Crashes: 1, Rollbacks: 1, Undo: 2, StepDowns: 1,
				Late: 1, Reads: InstantReads},
			TookOverExpired | Adopted | AppliedLate | WaitedForRollback},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, true)
		})
	}
}

func TestMemberHeartbeatHolds(t *testing.T) {
	for name, c := range map[string]setup{
		"for_two_members": {small,
			Setup{IDs: two, Prompt: true, Freezes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | TookOverReleased | AppliedLate | Conflicted | Revoked | Rejoined},
		"with_slow_reads": {small,
			Setup{IDs: two, Prompt: true, Late: 1},
			TookOverReleased | Conflicted},
		"when_an_outcome_is_unknown": {large,
			Setup{IDs: two, Prompt: true, Losses: 1, Late: 1, Reads: InstantReads},
			Adopted | AppliedLate},
		"when_a_member_crashes": {small,
			Setup{IDs: two, Prompt: true, Crashes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked},
		"when_the_store_loses_writes": {large,
			Setup{IDs: two, Prompt: true, Rollbacks: 1, Undo: 2, Late: 1, Reads: InstantReads},
			WaitedForRollback},
		"when_a_leader_steps_down": {small,
			Setup{IDs: two, Prompt: true, StepDowns: 1, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"when_a_leader_hands_over": {small,
			Setup{IDs: two, Prompt: true, HandOffs: 1, Late: 1, Reads: InstantReads},
			HandedOver},
		"when_a_leader_hands_over_with_notifications": {huge,
			Setup{IDs: two, Prompt: true, HandOffs: 1, Notices: true, Reads: InstantReads},
			HandedOver | ClaimedOnNotice},
		"when_a_leader_saves": {large,
			Setup{IDs: two, Prompt: true, Saves: 1, Losses: 1, Late: 1, Reads: InstantReads},
			Saved},
		"when_a_member_leaves": {small,
			Setup{IDs: two, Prompt: true, Closes: 1, Late: 1, Reads: InstantReads},
			TookOverReleased | Left},
		"when_a_member_sleeps": {small,
			Setup{IDs: two, Prompt: true, Sleeps: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked | Rejoined},
		"when_a_member_sleeps_whose_reads_are_slow": {huge,
			Setup{IDs: two, Prompt: true, Sleeps: 1, Reads: LastSlow},
			TookOverExpired | Revoked | Rejoined},
		"when_a_member_leaves_and_its_duty_stops_late": {small,
			Setup{IDs: two, Prompt: true, Closes: 1, SlowDuty: true, Reads: InstantReads},
			TookOverReleased | Left},
		"for_two_processes_with_one_id": {small,
			Setup{IDs: shared, Prompt: true, Freezes: 1, Late: 1, Reads: InstantReads},
			Rejoined},
		"for_two_processes_with_one_id_when_one_crashes": {large,
			Setup{IDs: shared, Prompt: true, Crashes: 1, Late: 1, Reads: InstantReads},
			Rejoined},
		"with_a_takeover_delay": {small,
			Setup{IDs: two, Config: delayed(false), Prompt: true, Crashes: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked},
		"with_a_longer_lease": {large,
			Setup{IDs: two, Config: longer(false), Prompt: true, Sleeps: 1, Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked | Rejoined},
		"for_two_elections": {small,
			Setup{IDs: two, Elections: 2, Prompt: true, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"for_three_members": {large,
			Setup{IDs: three, Prompt: true, Late: 1, Reads: InstantReads},
			TookOverReleased},
		"for_two_members_with_two_freezes": {huge,
			Setup{IDs: two, Prompt: true, Freezes: 2, Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked | Rejoined | AppliedLate},
		"for_two_members_with_slow_reads_and_a_freeze": {huge,
			Setup{IDs: two, Prompt: true, Freezes: 1, Late: 1, Reads: AtomicReads},
			TookOverExpired | Revoked | Rejoined | AppliedLate},
		"with_every_fault_once": {huge,
			Setup{IDs: two, Prompt: true, Freezes: 1, Losses: 1, Crashes: 1, Rollbacks: 1, Undo: 2, StepDowns: 1,
				Late: 1, Reads: InstantReads},
			TookOverExpired | Revoked | Adopted | WaitedForRollback},
		"for_two_processes_with_one_id_with_every_fault_once": {huge,
			Setup{IDs: shared, Prompt: true, Freezes: 1, Losses: 1, Crashes: 1, StepDowns: 1, Late: 1,
				Reads: InstantReads},
			Rejoined | Adopted},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, false)
		})
	}
}
