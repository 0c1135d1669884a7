package model

// Mutant is the protocol with one rule left out. The zero value is the protocol itself.
type Mutant uint8

// The mutants, each with the rule of the design that it breaks.
const (
	Correct Mutant = iota

	// DeadlineFromAnswer counts the deadline from the time of the answer (rule 1: from before the request was sent).
	DeadlineFromAnswer
	// StampBeforeRead counts the observer's wait from before its read (rule 2: from after it received the answer).
	StampBeforeRead
	// UnknownAsOfRead credits an attempt of unknown outcome with the time of the read that shows it (rule 3: sent(k)
	// + D).
	UnknownAsOfRead
	// NonceOfProcess uses one nonce for all attempts of a process, and so takes an earlier attempt for the last (rule
	// 3).
	NonceOfProcess
	// RenewUnchecked renews whatever the revision is (rule 4).
	RenewUnchecked
	// ReleaseUnchecked releases whatever the revision is (rule 4).
	ReleaseUnchecked
	// ShortLease has W < D (rule 1: D + G < W).
	ShortLease
	// ReleaseResetsEpoch writes a vacant record with epoch 0 (rule 4: no epoch is reset).
	ReleaseResetsEpoch
	// ReleaseDeletes deletes the record, so that epoch and revision begin anew (rule 4: no register is deleted).
	ReleaseDeletes
	// NoFence lets the worker accept every epoch (Fencing).
	NoFence
	// BelieveAfterRelease believes a read that shows its election after a release was sent (rule 3).
	BelieveAfterRelease
	// ReusedRevision has a store whose revisions come again (rule 4, and what a driver owes).
	ReusedRevision

	// ClaimUnrevoked claims an election whose heartbeat has run out without revoking that heartbeat (One idea).
	ClaimUnrevoked
	// RevokeUnchecked revokes whatever the revision is (One idea: on the revision that was watched running out).
	RevokeUnchecked
	// ReturnBelieving joins again after a revocation and goes on with the elections it had (One idea: drops
	// everything).
	ReturnBelieving
	// ClaimOfEarlier counts a claim of an earlier incarnation under the heartbeat of the present one (rule 1).
	ClaimOfEarlier
	// OldDeath takes a read of the holder's heartbeat register from before the election's record was received as a
	// proof of death (One idea).
	OldDeath
	// JoinOverLive joins over another live incarnation of the same ID (One idea).
	JoinOverLive
	// BelieveAfterLeave believes a read that shows its incarnation after a leave was sent (rule 3).
	BelieveAfterLeave
	// ReusedIncarnation joins again under the incarnation that it had before (One idea: random, never reused).
	ReusedIncarnation
	// IgnoreOwnElection leaves an election alone that names its own live incarnation although it does not hold it (rule
	// 6).
	IgnoreOwnElection
)

// String returns the name of the mutant as a fact.
func (m Mutant) String() string {
	return [...]string{
		Correct:             "the_protocol",
		DeadlineFromAnswer:  "deadline_from_the_time_of_the_answer",
		StampBeforeRead:     "observer_stamps_before_it_reads",
		UnknownAsOfRead:     "unknown_outcome_credited_with_the_time_of_the_read",
		NonceOfProcess:      "one_nonce_per_process",
		RenewUnchecked:      "renewal_without_revision_check",
		ReleaseUnchecked:    "release_without_revision_check",
		ShortLease:          "lease_shorter_than_the_deadline",
		ReleaseResetsEpoch:  "release_resets_the_epoch",
		ReleaseDeletes:      "release_deletes_the_record",
		NoFence:             "no_fence_at_the_worker",
		BelieveAfterRelease: "believing_again_after_a_release_was_sent",
		ReusedRevision:      "a_reused_revision",
		ClaimUnrevoked:      "claim_without_revoking_the_heartbeat",
		RevokeUnchecked:     "revocation_without_revision_check",
		ReturnBelieving:     "returning_incarnation_believes_its_old_elections",
		ClaimOfEarlier:      "claim_counted_under_a_later_incarnation",
		OldDeath:            "death_from_a_read_older_than_the_record",
		JoinOverLive:        "joining_over_a_live_incarnation_of_the_same_id",
		BelieveAfterLeave:   "believing_again_after_a_leave_was_sent",
		ReusedIncarnation:   "a_reused_incarnation",
		IgnoreOwnElection:   "own_election_neither_adopted_nor_vacated",
	}[m]
}

// checked reports whether the store compares revisions for this request.
func (m Mutant) checked(v Verb) bool {
	switch m {
	case RenewUnchecked:
		return v != Renew
	case ReleaseUnchecked:
		return v != Release && v != Leave
	case RevokeUnchecked:
		return v != Revoke
	}

	return true
}

// remembersStale reports whether a request on a revision that is not current may still be applied, so that Canon must
// keep it.
func (m Mutant) remembersStale(v Verb) bool { return m.repeatsRevisions() || !m.checked(v) }

// repeatsRevisions reports whether a revision may come again, so that Canon must not renumber old ones.
func (m Mutant) repeatsRevisions() bool { return m == ReusedRevision || m == ReleaseDeletes }

// creditsOld reports whether an attempt may give a deadline that has not passed although it was sent D ago.
func (m Mutant) creditsOld() bool { return m == DeadlineFromAnswer || m == UnknownAsOfRead }

// lowersEpochs reports whether the epoch of a record may fall, so that more than the order of epochs matters.
func (m Mutant) lowersEpochs() bool {
	switch m {
	case ReleaseResetsEpoch, ReleaseDeletes, RenewUnchecked, ReleaseUnchecked, ReusedRevision:
		return true
	}

	return false
}
