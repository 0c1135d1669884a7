package model

import "testing"

// ownFaults are what a run with faults of all kinds must show.
const ownFaults = TookOverRunOut | TookOverRelease | Adopted | AdoptedEarlier | AppliedLate |
	BelievedThroughGap | VacatedUnknown

func TestOwnLeaseHolds(t *testing.T) {
	for name, c := range map[string]struct {
		size
		Own
		shows Witness
	}{
		"for_two_processes": {
			small, Own{Procs: 2, D: 2, W: 3, Late: 1}, ownFaults},
		"with_two_late_requests": {
			small, Own{Procs: 2, D: 2, W: 3, Late: 2}, ownFaults},
		"with_a_longer_lease": {
			large, Own{Procs: 2, D: 3, W: 5, Late: 2}, ownFaults},
		"with_a_fenced_worker": {
			large, Own{Procs: 2, D: 2, W: 3, Late: 1, Tasks: 2}, ownFaults | RefusedStale},
		"for_three_processes": {
			large, Own{Procs: 3, D: 2, W: 3, Late: 1}, ownFaults},
		"for_three_processes_with_two_late_requests": {
			huge, Own{Procs: 3, D: 2, W: 3, Late: 2}, ownFaults},
		"for_three_processes_with_a_longer_lease": {
			huge, Own{Procs: 3, D: 3, W: 5, Late: 2}, ownFaults},
		"for_three_processes_with_a_fenced_worker": {
			huge, Own{Procs: 3, D: 2, W: 3, Late: 1, Tasks: 2}, ownFaults | RefusedStale},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			t.Parallel()
			c.Crashes, c.Losses, c.Releases = Unlimited, Unlimited, Unlimited
			holds(t, &c.Own, c.shows)
		})
	}
}

func TestOwnLeaseFailsWith(t *testing.T) {
	for mutant, want := range map[Mutant]Property{
		DeadlineFromAnswer:  OneLeader,
		StampBeforeRead:     OneLeader,
		UnknownAsOfRead:     OneLeader,
		NonceOfProcess:      OneLeader,
		RenewUnchecked:      OneGrant,
		ReleaseUnchecked:    OneGrant,
		ShortLease:          OneLeader,
		ReleaseResetsEpoch:  OneGrant,
		ReleaseDeletes:      OneGrant,
		NoFence:             FenceHolds,
		BelieveAfterRelease: OneLeader,
		ReusedRevision:      OneGrant,
	} {
		t.Run(mutant.String(), func(t *testing.T) {
			t.Parallel()
			m := &Own{Procs: 2, D: 2, W: 3, Late: 1, Losses: Unlimited, Releases: Unlimited, Mutant: mutant}
			switch mutant {
			case ShortLease:
				m.W = m.D - 1
			case NoFence:
				m.Tasks = 2
			}
			breaks(t, m, want)
		})
	}
}
