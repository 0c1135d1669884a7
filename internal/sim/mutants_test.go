package sim

// mutant is the code under test with one rule switched off, by edits of its source.
type mutant struct {
	name  string
	rule  string
	only  string // the invariants that must catch it; any of I1 to I13 if empty
	edits []edit
}

// edit replaces a snippet that stands exactly once in a file of the repository.
type edit struct{ file, old, new string }

// mutants are rules of the protocol, left out in turn. What no schedule of requests of whole members can show
// reliably is in the mutants of the core (internal/explore), which the explorer, the simulation of cores or a unit
// test catches.
var mutants = []mutant{
	{"the_deadline_counts_from_the_answer", "1", "", []edit{
		{"internal/core/heartbeat.go",
			"	asked := b.check\n",
			"	b.deadline = c.now.Add(b.trust)\n	asked := b.check\n"}}},
	{"the_holder_trusts_longer_than_the_observer_waits", "1", "I2", []edit{
		{"internal/core/core.go",
			"return w - w/500 - cfg.StopTimeout }",
			"return w + w/10 }"}}},
	{"the_holder_leaves_its_duties_no_time_to_stop", "1", "I2", []edit{
		{"internal/core/core.go",
			"return w - w/500 - cfg.StopTimeout }",
			"return w - w/500 }"}}},
	{"the_observer_counts_from_before_it_read", "2", "I2", []edit{
		{"internal/core/watch.go",
			"		w.since = c.now\n",
			"		w.since = by.sent\n"}}},
	{"a_release_takes_whoever_holds_it", "4", "I8", []edit{
		{"internal/core/former.go",
			"	case !heldBy(r, v.who, v.epoch): // rule 4",
			"	case r.Vacant(): // rule 4"}}},
	{"a_release_resets_the_epoch", "4", "I1 I4", []edit{
		{"internal/core/record.go",
			"Rev: r.Rev, Epoch: r.Epoch, Nonce: nonce,",
			"Rev: r.Rev, Nonce: nonce,"}}},
	{"a_claim_forgets_what_was_seen", "5", "", []edit{
		{"internal/core/claim.go",
			"	return max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1\n",
			"	return r.Epoch + 1\n"}}},
	{"a_store_that_went_back_is_claimed_at_once", "5", "I2 R5", []edit{
		{"internal/core/rollback.go",
			"	e.barred = max(e.barred, c.now.Add(wait))\n",
			"	_ = wait\n"}}},
	{"an_election_is_claimed_before_its_heartbeat_has_expired", "6", "I2", []edit{
		{"internal/core/watch.go",
			"w.began >= w.expires().Add(delay)\n",
			"w.began >= w.since.Add(w.rec.Duration/2)\n"}}},
	{"a_process_joins_over_a_live_one_of_its_ID", "6", "I2", []edit{
		{"internal/core/join.go",
			"	if !r.Vacant() && !slices.Contains(c.endings, r.Holder) {\n",
			"	if _ = slices.Contains(c.endings, r.Holder); !r.Vacant() && r.Holder.ID != c.cfg.ID {\n"}}},
	{"an_election_is_released_before_its_duties_have_stopped", "7", "I2", []edit{
		{"run.go",
			"		t.run = t.cand.run\n",
			"		t.run = t.cand.run\n		go func() {\n			<-st.Context().Done()\n" +
				"			r.shell.Do(core.DutyStopped{Election: st.Election, Epoch: st.Epoch})\n		}()\n"}}},
	{"a_member_joins_again_before_its_duties_have_stopped", "7", "I2", []edit{
		{"internal/core/member.go",
			"	if m.beat.held > 0 {\n",
			"	if false {\n"},
		{"internal/core/rank.go",
			"	if c.returned(r) || r.Next",
			"	if r.Next"}}},
	{"nothing_ends_a_term_at_its_deadline", "7", "I2", []edit{
		{"internal/core/heartbeat.go",
			"return b.deadline - Time(b.trust/100) }",
			"return Never }"}}},
	{"a_life_ends_after_its_deadline", "7", "R7", []edit{
		{"internal/core/heartbeat.go",
			"return b.deadline - Time(b.trust/100) }",
			"return b.deadline + Time(b.trust/100) }"}}},
	{"validity_is_a_flag", "8", "", []edit{
		{"internal/shell/term.go",
			"return !t.over.Load() && t.shell.now() < t.lease.until() }",
			"return !t.over.Load() && t.ctx.Err() == nil }"},
		{"internal/core/heartbeat.go",
			"return b.deadline - Time(b.trust/100) }",
			"return b.deadline + Time(b.trust/100) }"}}},
	{"there_is_no_takeover_delay", "10", "R10", []edit{
		{"internal/core/watch.go",
			"w.began >= w.expires().Add(delay)\n",
			"w.began >= w.expires()\n"}}},
	{"the_first_request_comes_before_the_jitter", "11", "R11", []edit{
		{"internal/core/step.go",
			"	if !c.started || c.now < c.startAt { // rule 11",
			"	if !c.started { // rule 11"},
		{"internal/core/step.go",
			"	case c.now < c.startAt:\n		return c.startAt\n",
			""}}},
	{"a_forgotten_join_frees_its_elections_at_once", "5", "R5", []edit{
		{"internal/core/rollback.go",
			"	if e.forgotten == holder || ",
			"	if e.forgotten != holder || "}}},
	{"incarnations_are_not_counted", "5", "I4", []edit{
		{"internal/core/join.go",
			"	c.runs = max(c.runs, r.Epoch) + 1\n",
			"	c.runs = 1\n"}}},
	{"held_elections_are_not_swept", "lost claims", "I12", []edit{
		{"internal/core/sweep.go",
			"		c.sweepLeft = max(c.sweepLeft, min(sweepBatch, len(c.held)))\n",
			""}}},
	{"a_second_rollback_is_not_waited_for", "5", "R5", []edit{
		{"internal/core/rollback.go",
			"	if r.Epoch < e.shown {\n		return true\n	}\n",
			""}}},
	{"an_edit_gives_a_dead_leader_time", "2", "I7", []edit{
		{"internal/core/watch.go",
			"	if !same && !edited {\n",
			"	if !same || edited {\n"}}},
	{"a_reaper_kills_who_holds_nothing", "reaper", "I10", []edit{
		{"internal/sim/reaper.go", "		if l.Holds && !l.Stopped && l.killAt <= now {\n",
			"		if !l.Stopped && l.killAt <= now {\n"},
		{"internal/sim/reaper.go", "		if !m.Stopped && !m.Over && m.Holds {\n",
			"		if !m.Stopped && !m.Over {\n"}}},
	{"a_fence_admits_every_epoch", "fencing", "I3", []edit{{"token.go",
		"	case t.Epoch < highest.Epoch:\n		return tokenStale\n",
		"	case t.Epoch < highest.Epoch:\n		return tokenCurrent\n"}}},
}
