package sim

// mutant is the code under test with one rule switched off, by edits of its source.
type mutant struct {
	name  string
	rule  string
	only  string // the invariants that must catch it; any of I1 to I13 if empty
	edits []edit
}

// edit replaces a snippet that stands exactly once in a file of the root package, or of this one.
type edit struct{ file, old, new string }

// mutants is every rule of the protocol, left out in turn. What no schedule of requests can show is
// in the mutants of the root package, which unit tests catch: that a won election is read after the
// next heartbeat, since the sweep finds the same a little later; that no term begins while its engine
// stops; and that a read which may be old is not claimed on, which the first 2,000 seeds do not show
// reliably.
var mutants = []mutant{
	{"the_deadline_counts_from_the_answer", "1", "", []edit{{"keep.go",
		"	newest, lost := b.shows(got)\n",
		"	if err == nil {\n		b.tries[len(b.tries)-1].sent = e.clock.Now()\n	}\n	newest, lost := b.shows(got)\n"}}},
	{"the_holder_trusts_longer_than_the_observer_waits", "1", "I2", []edit{{"config.go",
		"return w - w/500 - g }", "return w + w/10 }"}}},
	{"the_holder_leaves_its_duties_no_time_to_stop", "1", "I2", []edit{{"config.go",
		"return w - w/500 - g }", "return w - w/500 }"}}},
	{"a_claim_counts_under_a_later_incarnation", "1", "", []edit{
		{"follow.go", "		c := s.claims[k]\n",
			"		c := s.claims[k]\n		if !e.cfg.OwnLease && e.self != nil {\n			c.life = e.self.life\n		}\n"},
		{"follow.go", "		if !e.cfg.OwnLease && c.life.hasEnded() {\n			return true\n		}\n", ""}}},
	{"the_observer_counts_from_before_it_read", "2", "I2", []edit{{"follow.go",
		"		s.since = received\n", "		s.since = began.at\n"}}},
	{"an_unknown_outcome_counts_from_the_read", "3", "", []edit{{"keep.go",
		"	newest, lost := b.shows(got)\n",
		"	if err != nil {\n		for i := range b.tries {\n			b.tries[i].sent = e.clock.Now()\n		}\n	}\n	newest, lost := b.shows(got)\n"}}},
	{"all_attempts_of_a_process_have_one_nonce", "3", "", []edit{
		{"keep.go", "	next.Nonce = newNonce()\n", "	next.Nonce = 7\n"},
		{"keep.go", "	k := slices.IndexFunc(b.tries, func(t try) bool { return t.nonce == l.Nonce })\n",
			"	k := -1\n	for i, t := range slices.Backward(b.tries) {\n		if t.nonce == l.Nonce {\n			k = i\n			break\n		}\n	}\n"}}},
	{"a_conflict_counts_as_still_held", "3", "", []edit{{"keep.go",
		"	if err != nil {\n		var rerr error\n		switch got, rerr = e.get(ctx, next.Name); {\n",
		"	if errors.Is(err, driver.ErrConflict) {\n		got, err = next, nil\n	}\n	if err != nil {\n		var rerr error\n		switch got, rerr = e.get(ctx, next.Name); {\n"}}},
	{"a_released_seat_is_believed_again", "3", "", []edit{{"follow.go",
		"	if k >= 0 && s.cand != nil && !e.closed {\n		c := s.claims[k]\n",
		"	if (k >= 0 || e.self != nil && e.self.life.who == l.Holder) && s.cand != nil {\n		c := claim{nonce: l.Nonce}\n		if k >= 0 {\n			c = s.claims[k]\n		} else {\n			c.life = e.self.life\n		}\n"}}},
	{"an_unknown_claim_counts_as_won", "3", "", []edit{{"follow.go",
		"		default: // unknown: the register tells, now or later\n",
		"		default: // unknown: the register tells, now or later\n			e.received(s, bids[i], nil, now)\n"}}},
	{"a_revocation_takes_whatever_revision_there_is", "4", "I2 I8 R2", []edit{{"follow.go",
		"	sent := e.now()\n	got, err := e.swap(ctx, next)\n	e.mu.Lock()\n",
		"	sent := e.now()\n	if l, err := e.get(ctx, dead.Name); err == nil {\n		next.Rev = l.Rev\n	}\n	got, err := e.swap(ctx, next)\n	e.mu.Lock()\n"}}},
	{"a_renewal_takes_whatever_revision_there_is", "4", "", []edit{{"keep.go",
		"	got, err := e.swap(ctx, next)\n	if err != nil {\n		var rerr error\n",
		"	if l, err := e.get(ctx, next.Name); err == nil && b.life.deadline.Load() != 0 {\n		next.Rev = l.Rev\n	}\n	got, err := e.swap(ctx, next)\n	if err != nil {\n		var rerr error\n"}}},
	{"a_release_takes_whoever_holds_it", "4", "I8", []edit{{"follow.go",
		"		if !mine(got) {\n			return got, true\n		}\n", ""}}},
	{"a_release_resets_the_epoch", "4", "I1 I4", []edit{{"past.go",
		"Rev: l.Rev, Epoch: l.Epoch, Nonce: nonce,", "Rev: l.Rev, Nonce: nonce,"}}},
	{"a_claim_forgets_what_was_seen", "5", "", []edit{{"follow.go",
		"Epoch: max(l.Epoch, e.m.memory[s.name]) + 1,", "Epoch: l.Epoch + 1,"}}},
	{"a_store_that_went_back_is_claimed_at_once", "5", "I2 R5", []edit{{"follow.go",
		"	s.barred = max(s.barred, now+max(e.cfg.LeaseDuration, min(s.lease.Duration, maxDuration)))\n", ""}}},
	{"a_seat_is_claimed_without_revoking_its_heartbeat", "6", "I2 R6", []edit{{"round.go",
		"		if v == expired && s.lease.Via == \"\" {\n", "		if v == expired {\n"}}},
	{"a_seat_is_claimed_before_its_heartbeat_has_run_out", "6", "I2", []edit{{"follow.go",
		"	if end := later(h.ranOut(), e.cfg.TakeoverDelay);", "	if end := h.since + h.lease.Duration/2;"}}},
	{"a_seat_that_names_oneself_is_left_alone", "6", "I7", []edit{{"follow.go",
		"	e.mu.Unlock()\n	e.giveBack(s, l, \"\", reasonAbandoned)\n", "	e.mu.Unlock()\n"}}},
	{"death_is_taken_from_a_read_older_than_the_record", "6", "I2", []edit{
		{"follow.go", "	if !h.seen || l.Via != \"\" && h.began.order < s.received.order {\n", "	if !h.seen {\n"},
		{"read.go", "		old := s.lease.Via != \"\" && h.began.order < s.received.order ||", "		old :="},
		{"follow.go", "		if e.joinForgotten(s, h.lease) {\n", "		if false {\n"}}}, // which alone would turn it into a wait
	{"a_process_joins_over_a_live_one_of_its_ID", "6", "I2", []edit{{"keep.go",
		"		if err == nil && !l.Vacant() && !e.m.hasEnded(l.Holder) {\n",
		"		if err == nil && !l.Vacant() && l.Holder.ID != e.m.ID {\n"}}},
	{"an_incarnation_is_used_again", "6", "", []edit{{"keep.go",
		"		life := newLife(e.m.ID, newIncarnation(count))\n", "		life := newLife(e.m.ID, \"1.again\")\n"}}},
	{"a_seat_is_released_before_its_duties_have_stopped", "7", "I2", []edit{{"seat.go",
		"		e.watchStop(t)\n", "		e.watchStop(t)\n		go e.release([]*term{t})\n"}}},
	{"a_member_joins_again_before_its_duties_have_stopped", "7", "I2", []edit{{"engine.go",
		"	b.life.duties.Wait()\n", ""}, {"choose.go", "	if e.returned(l) {\n", "	if false {\n"}}}, // whose wait would hide it
	{"nothing_ends_a_term_at_its_deadline", "7", "I2", []edit{{"keep.go",
		"			e.drop(b.life, errUnconfirmed)\n", ""}}},
	{"validity_is_a_flag", "8", "", []edit{{"term.go",
		"	return t.t != nil && !t.t.over.Load() && t.t.life.live(t.t.e.clock.Now())\n", "	return t.t != nil && !t.t.over.Load()\n"}}},
	{"renewals_go_on_past_the_deadline", "9", "I6", []edit{{"keep.go",
		"	if d := b.life.deadline.Load(); d != 0 && !b.life.live(now) {\n", "	if d := b.life.deadline.Load(); d == 1 {\n"}}},
	{"there_is_no_takeover_delay", "10", "R10", []edit{{"follow.go",
		"	if end := later(h.ranOut(), e.cfg.TakeoverDelay);", "	if end := h.ranOut();"}}},
	{"nothing_is_read_again_after_the_takeover_delay", "10", "R10", []edit{{"follow.go",
		"; h.began.at < end {\n", "; now < end {\n"}}},
	{"the_first_request_comes_before_the_jitter", "11", "R11", []edit{{"engine.go",
		"	if e.jitter() {\n		e.spawn(e.follow)\n", "	e.spawn(e.follow)\n	if e.jitter() {\n"}}},
	{"without_hints_nothing_is_noticed", "12", "I7", []edit{{"read.go",
		"		e.pollAt = now + e.pollInterval()\n", "		e.pollAt = never\n"}}},
	{"a_release_does_not_forget_its_claim", "3", "I2", []edit{{"follow.go",
		"	s.claims = slices.DeleteFunc(s.claims, func(c claim) bool { return c.life.who == l.Holder && c.nonce == l.Nonce })\n", ""}}},
	{"a_life_ends_after_its_deadline", "7", "R7", []edit{{"keep.go", "- b.trust/100 -", "+ b.trust/100 -"}}},
	{"a_forgotten_join_frees_its_seats_at_once", "5", "R5", []edit{{"follow.go",
		"	if s.forgotten == holder || ", "	if s.forgotten != holder || "}}},
	{"incarnations_are_not_counted", "5", "I4", []edit{{"member.go", "	m.runs = max(m.runs, shown) + 1\n", "	m.runs = 1\n"}}},
	{"an_engine_does_not_wait_for_its_duties", "7", "I2 R7", []edit{
		{"engine.go", "	e.duties.Wait()\n	e.lifeline(b, true, false)\n	e.finishing.Wait()\n", "	e.lifeline(b, true, false)\n"},
		{"engine.go", "	e.finishing.Wait()\n	e.wg.Wait()\n", "	e.wg.Wait()\n"}}},
	{"held_elections_are_not_swept", "lost claims", "I12", []edit{{"read.go",
		"	if now < e.sweepAt {\n		return nil\n", "	if e.sweepAt != 0 {\n		return nil\n"}}},
	{"a_checkpoint_is_saved_in_whatever_record_is_known", "checkpoints", "I9", []edit{{"term.go",
		"	if t.over.Load() || !t.holds(next) {\n", "	if e == nil {\n"}}},
	{"a_second_rollback_is_not_waited_for", "5", "R5", []edit{{"follow.go",
		"	if l.Epoch < s.shown {\n		return true\n	}\n", ""}}},
	{"the_end_of_an_incarnation_waits_for_its_request", "9", "I10", []edit{{"engine.go",
		"	case <-b.life.over:\n		return errUnconfirmed\n", ""}}},
	{"a_reaper_kills_who_holds_nothing", "reaper", "I10", []edit{
		{"internal/sim/reaper.go", "		if l.Holds && !l.Stopped && l.killAt <= now {\n", "		if !l.Stopped && l.killAt <= now {\n"},
		{"internal/sim/reaper.go", "		if !m.Stopped && !m.Over && m.Holds {\n", "		if !m.Stopped && !m.Over {\n"}}},
	{"an_edit_gives_a_dead_leader_time", "2", "I7", []edit{{"follow.go", "	if !same && !edited {\n", "	if !same || edited {\n"}}},
	{"a_request_under_an_unknown_outcome_is_swallowed", "requests", "I11", []edit{{"keep.go",
		"	if err != nil && b.edited != nil {\n", "	if err != nil && b.edited != nil && !newest {\n"}}},
	{"one_unreadable_register_holds_up_all_others", "isolation", "I7", []edit{{"read.go",
		"				e.unread(part[i], out.Err)\n				continue\n", "				e.unread(part[i], out.Err)\n				return false\n"}}},
	{"a_fence_admits_every_epoch", "fencing", "I3", []edit{{"token.go",
		"	case t.Epoch < highest.Epoch:\n		return tokenStale\n", "	case t.Epoch < highest.Epoch:\n		return tokenCurrent\n"}}},
}
