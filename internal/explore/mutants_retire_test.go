package explore

// retireFaults are faults in what keeps rule 13.
var retireFaults = []fault{
	{"rule_13_a_removal_is_not_conditional", "retire.go",
		"Remove, driver.Record{Name: t.name, Rev: t.rec.Rev, Epoch: t.rec.Epoch})", "Remove, driver.Record{Name: t.name, Epoch: t.rec.Epoch})",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_a_register_is_removed_before_the_floor_is_raised", "retire.go",
		"\treturn t.isMember() || c.floor.seen && c.floor.rec.Epoch >= t.rec.Epoch\n", "\treturn true\n",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_a_claim_ignores_the_floor", "claim.go",
		"max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1", "max(r.Epoch, c.memory[e.name]) + 1",
		explored + "TestRetirementHolds/of_an_election"},
	{"rule_13_a_claim_counts_from_its_sending", "claim.go",
		"floor: c.floor.read,", "floor: c.now,",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_a_floor_counts_for_ever", "floor.go",
		"c.floor.seen && c.now.Add(c.timeout) < c.floor.read.Add(c.floorLife())", "c.floor.seen",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_a_floor_counts_from_its_answer", "floor.go",
		"\t\tf.read = done.sent\n", "\t\tf.read = c.now\n",
		explored + "TestRetirementHolds/of_an_election_with_slow_reads"},
	{"rule_13_a_register_is_removed_at_once", "retire.go",
		"\tt.rested = c.now.Add(t.idle)\n", "\tt.rested = c.now\n",
		explored + "TestRetirementHolds/of_an_election_while_a_process_sleeps"},
	{"rule_13_a_register_is_removed_that_an_election_names", "retire.go",
		"\tcase done.kind == namedCall && o == Done:\n\t\tc.retireDone(t, InUse)\n", "",
		explored + "TestRetirementHolds/of_a_member"},
}
