package model

import "testing"

const (
	// viaQuiet is what must show even without faults: a process that is slow enough is one that failed.
	viaQuiet = TookOverRunOut | TookOverRelease | BelievedThroughGap | Revoked |
		Rejoined | JoinedOverOwn | FreedByOneDeath
	// viaLosses is what lost requests and answers add.
	viaLosses = viaQuiet | Adopted | AdoptedEarlier | AppliedLate | VacatedUnknown
)

// The IDs of the processes.
var (
	distinct = []uint8{0, 1}
	shared   = []uint8{0, 0}
)

func TestMemberHeartbeatHolds(t *testing.T) {
	for name, c := range map[string]struct {
		size
		Via
		shows Witness
	}{
		"for_two_members": {
			small, Via{Members: distinct, ElectionCount: 1}, viaQuiet},
		"for_two_members_when_one_crashes": {
			large, Via{Members: distinct, ElectionCount: 1, Crashes: 1}, viaQuiet | AppliedLate},
		"for_two_members_when_an_outcome_is_unknown": {
			large, Via{Members: distinct, ElectionCount: 1, Losses: 1}, viaLosses},
		"for_two_members_when_one_releases_or_leaves": {
			large, Via{Members: distinct, ElectionCount: 1, Releases: 1}, viaQuiet | Left},
		"for_two_elections": {
			large, Via{Members: distinct, ElectionCount: 2}, viaQuiet},
		"for_two_processes_with_one_id": {
			small, Via{Members: shared, ElectionCount: 1}, viaQuiet},
		"for_two_processes_with_one_id_when_an_outcome_is_unknown_and_one_leaves": {
			large, Via{Members: shared, ElectionCount: 1, Losses: 1, Releases: 1}, viaLosses | Left},
		"for_two_processes_with_one_id_when_one_crashes": {
			large, Via{Members: shared, ElectionCount: 1, Crashes: 1}, viaQuiet | AppliedLate},
		"for_two_processes_with_one_id_with_every_fault_once": {
			huge, Via{Members: shared, ElectionCount: 1, Crashes: 1, Losses: 1, Releases: 1}, viaLosses | Left},
		"for_two_processes_with_one_id_with_any_number_of_faults": {
			huge, Via{Members: shared, ElectionCount: 1, Crashes: Unlimited, Losses: Unlimited, Releases: Unlimited},
			viaLosses | Left},
		"for_two_processes_with_one_id_and_a_fenced_worker": {
			huge, Via{Members: shared, ElectionCount: 1, Tasks: 2, Releases: 1}, viaQuiet | Left | RefusedStale},
		"for_two_members_with_two_unknown_outcomes": {
			huge, Via{Members: distinct, ElectionCount: 1, Losses: 2}, viaLosses},
		"for_two_members_with_every_fault_once": {
			huge, Via{Members: distinct, ElectionCount: 1, Crashes: 1, Losses: 1, Releases: 1}, viaLosses | Left},
		"for_two_elections_when_an_outcome_is_unknown": {
			huge, Via{Members: distinct, ElectionCount: 2, Losses: 1}, viaLosses},
		"for_three_processes_two_of_them_with_one_id": {
			huge, Via{Members: []uint8{0, 0, 1}, ElectionCount: 1}, viaQuiet},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			t.Parallel()
			c.D, c.W, c.Late = 2, 3, 1
			holds(t, &c.Via, c.shows)
		})
	}
}

// Those that are large fail with the own lease too, which is small.
func TestMemberHeartbeatFailsWith(t *testing.T) {
	for mutant, c := range map[Mutant]struct {
		size
		want Property
		Via
	}{
		DeadlineFromAnswer:  {small, OneLeader, Via{Begin: Held}},
		StampBeforeRead:     {small, OneLeader, Via{Members: shared}},
		UnknownAsOfRead:     {small, OneLeader, Via{Members: shared, Losses: 1}},
		NonceOfProcess:      {large, OneLeader, Via{Members: shared, Losses: 2}},
		RenewUnchecked:      {large, OneLeader, Via{Members: shared, Late: 1, Losses: 1}},
		ReleaseUnchecked:    {large, OneGrant, Via{Begin: Held, Late: 1, Losses: 1, Releases: 1}},
		ShortLease:          {small, OneLeader, Via{Begin: Held, W: 1}},
		ReleaseResetsEpoch:  {small, OneGrant, Via{Begin: Held, Releases: 1}},
		ReleaseDeletes:      {small, OneGrant, Via{Begin: Held, Releases: 1}},
		NoFence:             {small, FenceHolds, Via{Begin: Held, Tasks: 2, Releases: 1}},
		BelieveAfterRelease: {small, OneLeader, Via{Begin: Held, Late: 1, Losses: 1, Releases: 1}},
		ReusedRevision:      {small, OneLeader, Via{Members: shared}},
		ClaimUnrevoked:      {small, OneLeader, Via{Begin: Held}},
		RevokeUnchecked:     {small, OneLeader, Via{Begin: Held}},
		ReturnBelieving:     {small, OneLeader, Via{Begin: Held}},
		ClaimOfEarlier:      {small, OneLeader, Via{Begin: Held}},
		OldDeath:            {small, OneLeader, Via{Begin: Held}},
		JoinOverLive:        {small, OneLeader, Via{Members: shared}},
		BelieveAfterLeave:   {small, OneLeader, Via{Begin: Held, Late: 1, Losses: 1, Releases: 1}},
		ReusedIncarnation:   {small, OneLeader, Via{Begin: Held}},
		IgnoreOwnElection:   {small, NeverStuck, Via{Members: shared, Losses: 1, Releases: 1}},
	} {
		t.Run(mutant.String(), func(t *testing.T) {
			c.skip(t)
			t.Parallel()
			c.Mutant, c.ElectionCount, c.D = mutant, 1, 2
			if c.Members == nil {
				c.Members = distinct
			}
			if c.W == 0 {
				c.W = 3
			}
			breaks(t, &c.Via, c.want)
		})
	}
}
