package explore

// retireFaults are faults in what keeps rule 13.
var retireFaults = []fault{
	{"rule_13_a_removal_is_not_conditional", "retire.go",
		"Remove, driver.Record{Name: t.name, Rev: t.rec.Rev, Epoch: t.rec.Epoch})",
		"Remove, driver.Record{Name: t.name, Epoch: t.rec.Epoch})",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_a_register_is_removed_before_the_floor_is_raised", "retire.go",
		"\treturn t.isMember() || c.floor.seen && c.floor.rec.Epoch >= t.rec.Epoch\n", "\treturn true\n",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_the_floor_is_raised_just_before_the_removal", "retire.go",
		"\tif !c.covered(t) {\n\t\tc.raiseFloor(", lateFloor,
		explored + "TestRetirementHolds/of_an_election_while_an_answer_is_late"},
	{"rule_13_a_claim_ignores_the_floor", "claim.go",
		"max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1", "max(r.Epoch, c.memory[e.name]) + 1",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_the_deadline_of_a_claim_counts_from_its_sending", "leader.go",
		"\tif !c.floorCounts(k.floor) {", "\tif false {",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_the_floor_of_a_claim_counts_from_its_sending", "claim.go",
		"floor: c.floor.read,", "floor: c.now,",
		tested + "TestFloor"},
	{"rule_13_a_floor_counts_for_ever", "floor.go",
		"c.floor.seen && c.now.Add(claim) < ", "c.floor.seen || c.now.Add(claim) < ",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_a_floor_counts_from_its_answer", "floor.go",
		"\t\tf.read = done.sent\n", "\t\tf.read = c.now\n",
		explored + "TestRetirementHolds/of_an_election_while_an_answer_is_late"},
	{"rule_13_a_register_is_removed_at_once", "retire.go",
		"\tt.rested = c.now.Add(t.idle)\n\tt.phase = retireRest\n", "\tt.rested = c.now\n\tt.phase = retireRest\n",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_a_register_is_removed_that_an_election_names", "retire.go",
		"\tcase done.kind == namedCall && o == Done:\n\t\tc.retireDone(t, InUse)\n", "",
		explored + "TestRetirementHolds/of_a_member"},
	{"rule_13_a_register_that_was_removed_counts_as_lost", "election.go",
		"\tif !removed && c.wentBack(", "\tif _ = removed; c.wentBack(",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_a_register_is_removed_that_is_paused", "retire.go",
		"!r.Vacant() || r.Paused ||", "!r.Vacant() ||",
		tested + "TestRetirement"},
	{"rule_13_a_register_is_removed_that_has_a_checkpoint", "retire.go",
		" || len(r.Data) > 0 ||", " ||",
		tested + "TestRetirement"},
	{"rule_13_a_removal_of_unknown_outcome_is_not_looked_for", "retire.go",
		"\t\tt.phase = retireCheck\n", "\t\tt.phase = retireRemove\n",
		tested + "TestRetirement"},
	{"rule_13_a_removal_covers_what_was_lost_since", "floor.go",
		"c.memory[name] > 0 && c.memory[name] <= epoch {", "c.memory[name] > 0 && c.memory[name] <= c.floor.epoch {",
		tested + "TestARemovalCoversNoLaterEpoch"},
	{"all_retirements_ask_the_store_at_once", "retire_turns.go",
		"\tif c.retiring.active < maxRetiring {\n", "\tif true {\n",
		tested + "TestVeryManyRetirementsTakeTurns"},
	{"a_retirement_that_waits_for_the_floor_keeps_its_turn", "retire_turns.go",
		"\t\treturn\n\t}\n\n\tc.nextTurn()\n", "\t}\n",
		tested + "TestTurnsOfRetirements"},
	{"rule_13_a_floor_that_was_lost_is_not_restored", "floor.go",
		"\t\tf.raise = max(f.raise, f.epoch)\n", "",
		tested + "TestFloor"},
}

// lateFloor has a register rest first, and the floor raised then. A candidate that has read the floor before that, and
// reads the register after its removal, claims an epoch that was used.
const lateFloor = `	if t.rested == 0 {
		t.rested = c.now.Add(t.idle)
		t.phase = retireRest
		t.wake(t.rested)
		return
	}
	if c.covered(t) {
		t.phase = retireRemove
		c.enqueue(t.ref)
		return
	}
	if !c.covered(t) {
		c.raiseFloor(`
