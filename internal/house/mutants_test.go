package house

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/mutant"
)

// fault is code with a line deleted or changed, and the test of a scenario that must fail with it.
type fault struct {
	id    string // of the scenario
	dir   string // of the test's package
	test  string // the test function, and how its subtest's name begins
	edits []mutant.Edit
}

// edit replaces a text of a file. An empty replacement deletes it.
func edit(file, before, after string) mutant.Edit {
	return mutant.Edit{File: file, Old: before, New: after}
}

// faults holds at least one fault for each scenario.
var faults = slices.Concat(coordinatorFaults, epochFaults, fleetFaults, lockFaults, preferenceFaults)

const (
	library  = "."
	settings = "cmd/regent/internal/config"
	daemon   = "cmd/regent"
)

var coordinatorFaults = []fault{
	{"C01", settings, "TestProfiles/C01_", []mutant.Edit{edit("config.go", "	Eligible:                   true,\n", "	Eligible:                   false,\n")}},
	{"C02", library, "TestWatch/C02_", []mutant.Edit{edit("round.go", "	return e.cfg.Eligible && e.ill() == nil &&", "	return e.ill() == nil &&")}},
	{"C02", daemon, "TestServe/C02_", []mutant.Edit{edit("round.go", "	return e.cfg.Eligible && e.ill() == nil &&", "	return e.ill() == nil &&")}},
	{"C03", library, "TestLead/C03_", []mutant.Edit{edit("seat.go", "		go e.serve(t)\n", "		go func() { <-t.ctx.Done(); e.served(t, nil) }()\n")}},
	{"C04", library, "TestLead/C04_", []mutant.Edit{edit("read.go", "case s.stale || !s.seen, s.term == nil && due, ", "case s.stale || !s.seen, ")}},
	{"C04", library, "TestLead/C04_a_taken", []mutant.Edit{edit("round.go", "		case !e.hear(l):\n			e.changed(l)\n", "")}},
	{"C05", library, "TestDuties/C05_", []mutant.Edit{edit("duty.go", "		stops[len(stops)-1-i](turn)\n", "		stops[i](turn)\n")}},
	{"C06", library, "TestLead/C06_", []mutant.Edit{edit("seat.go", "func() error { e.releaseAll(terms); return nil }", "func() error { return nil }"),
		edit("follow.go", "	e.mu.Unlock()\n	e.giveBack(s, l, \"\", reasonAbandoned)\n", "	e.mu.Unlock()\n")}},
	{"C07", library, "TestTakeover/C07_", []mutant.Edit{edit("round.go", "	for _, l := range dead {\n		e.mu.Lock()\n", "	for _, l := range dead[:0] {\n		e.mu.Lock()\n")}},
	{"C07", daemon, "TestServe/C07_after_kill_9_at_a_30s_lease_a_standby_leads_at_once_lock", []mutant.Edit{edit("cmd/regent/main.go", "	if !s.Reaper || ", "	if true || "),
		edit("cmd/regent/stores.go", "NoWitness: use.children", "NoWitness: true")}},
	{"C08", "cmd/regent/internal/poll", "TestConduct/C08_", []mutant.Edit{edit("cmd/regent/internal/poll/conduct.go", "readCheckpoint(c.term.Saved())", "readCheckpoint(nil)")}},
	{"C09", library, "TestLead/C09_", []mutant.Edit{edit("follow.go", "	case l.Vacant():\n		return free, 0\n", "	case l.Vacant() || e.m.runs > 1:\n		return free, 0\n")}},
	{"C10", library, "TestLead/C10_", []mutant.Edit{edit("read.go", "	case s.term == nil:\n		s.stale = true\n", "	case s.term == nil:\n"),
		edit("follow.go", "			e.calm(conflictWait)\n			e.reread(s)\n", "			e.calm(conflictWait)\n")}},
	{"C11", library, "TestTakeover/C11_", []mutant.Edit{edit("config.go", "return w - w/500 - g }", "return 2 * w }")}},
	{"C12", library, "TestTakeover/C12_a_leader_that_is_back", []mutant.Edit{edit("follow.go", "	if end := later(h.ranOut(), e.cfg.TakeoverDelay);", "	if end := h.ranOut();"),
		edit("round.go", "	end := later(h.ranOut(), e.cfg.TakeoverDelay)\n", "	end := h.ranOut()\n")}},
	{"C12", library, "TestTakeover/C12_the_head_start", []mutant.Edit{edit("choose.go", "	if e.returned(l) {\n", "	if false {\n")}},
	{"C12", daemon, "TestTakeoverDelay/C12_a_silent_leader", []mutant.Edit{edit("follow.go", "	if end := later(h.ranOut(), e.cfg.TakeoverDelay);", "	if end := h.ranOut();"),
		edit("round.go", "	end := later(h.ranOut(), e.cfg.TakeoverDelay)\n", "	end := h.ranOut()\n")}},
	{"C13", library, "TestTakeover/C13_", []mutant.Edit{edit("follow.go", "	if end := later(h.ranOut(), e.cfg.TakeoverDelay);", "	if end := h.ranOut();"),
		edit("round.go", "	end := later(h.ranOut(), e.cfg.TakeoverDelay)\n", "	end := h.ranOut()\n")}},
	{"C14", library, "TestEvents/C14_", []mutant.Edit{edit("seat.go", "Event{Kind: EventBecameLeader, Election: s.name, Epoch: s.lease.Epoch,", "Event{Kind: EventBecameLeader, Election: s.name,")}},
	{"C15", library, "TestEvents/C15_every", []mutant.Edit{edit("seat.go", "Epoch: t.public.Epoch, Metadata: map[string]string{\"reason\": reason}})", "Epoch: t.public.Epoch})")}},
	{"C15", library, "TestEvents/C15_whoever", []mutant.Edit{edit("seat.go", "	if p := c.ended; p.Epoch != 0 {\n", "	if p := c.ended; p.Epoch == maxEpoch {\n")}},
	{"C16", library, "TestEvents/C16_", []mutant.Edit{edit("seat.go", "			before.Leader = previous.Holder.ID\n		}\n", "			before.Leader = previous.Holder.ID\n		}\n		before.Leader = \"\"\n")}},
	{"C17", library, "TestTakeover/C17_", []mutant.Edit{edit("engine.go", "	e.end(context.Cause(e.ctx), \"\", e.held(nil)...)\n", "")}},
	{"C18", settings, "TestWarnings/C18_", []mutant.Edit{edit("cmd/regent/internal/config/file.go", "key.Value == \"cluster_coordinator\" || key.Value == \"clusterCoordinator\"", "key.Value == \"\"")}},
	{"C19", settings, "TestWarnings/C19_", []mutant.Edit{edit("cmd/regent/internal/config/file.go", "	c.warnings = c.warnings[:min(1, len(c.warnings))] // one is enough, however it is spelled\n", "")}},
	{"C20", daemon, "TestCrew/C20_", []mutant.Edit{edit("cmd/regent/internal/poll/conduct.go", "readCheckpoint(c.term.Saved())", "readCheckpoint(nil)")}},
	{"C21", library, "TestLead/C21_", []mutant.Edit{edit("engine.go", "	wait := e.cfg.StartupJitterMin\n", "	wait := e.cfg.StartupJitterMin + 500*time.Millisecond\n")}},
	{"C22", library, "TestConfig/C22_a_negative_delay", []mutant.Edit{edit("config.go", "	check(c.TakeoverDelay >= 0, \"takeoverDelay\", c.TakeoverDelay, \"cannot be negative\")\n", "")}},
}

var epochFaults = []fault{
	{"E01", library, "TestFence/E01_", []mutant.Edit{edit("token.go", "	case t.Epoch < highest.Epoch:\n		return tokenStale\n", "	case t.Epoch < highest.Epoch:\n		return tokenCurrent\n")}},
	{"E02", library, "TestFence/E02_", []mutant.Edit{edit("fence.go", "	f.highest = t\n", "")}},
	{"E03", library, "TestFence/E03_", []mutant.Edit{edit("fence.go", "	if f.Off {\n		return nil\n	}\n", "")}},
	{"E04", library, "TestFence/E04_", []mutant.Edit{edit("member.go", "	if f := m.fences[election]; f != nil {\n", "	if f := m.fences[election]; f != nil && epoch == 0 {\n")}},
	{"E05", library, "TestStats/E05_", []mutant.Edit{edit("stats.go", "ratio <= e.cfg.ContentionThreshold", "ratio <= 100*e.cfg.ContentionThreshold")}},
	{"E06", library, "TestStats/E06_", []mutant.Edit{edit("stats.go", "now-c.contended < contentionQuiet", "now < c.contended")}},
	{"E07", library, "TestStats/E07_", []mutant.Edit{edit("stats.go", "if !e.cfg.ContentionDetectionEnabled || ratio", "if ratio")}},
	{"E08", library, "TestStats/E08_", []mutant.Edit{edit("stats.go", "at(50), at(95), at(99)", "at(50), at(95), at(50)")}},
	{"E09", library, "TestStats/E09_", []mutant.Edit{edit("stats.go", "	if len(recent) < enough {\n", "	if len(recent) == 0 {\n")}},
	{"E10", library, "TestStats/E10_", []mutant.Edit{edit("stats.go", "	latencies = 100 ", "	latencies = 1000 ")}},
	{"E11", library, "TestFence/E11_", []mutant.Edit{edit("fence.go", "age < 0 || age > f.Grace || ", "age < 0 || ")}},
	{"E12", library, "TestFence/E12_", []mutant.Edit{edit("fence.go", "	if t.Epoch+1 != f.highest.Epoch || t.against(f.previous) == tokenStale {\n", "	if t.Epoch == 0 {\n")}},
	{"E13", library, "TestFence/E13_the_highest", []mutant.Edit{edit("fence.go", "		if err := writeFence(f.Path, t); err != nil {\n", "		if err := error(nil); err != nil {\n")}},
}

var fleetFaults = []fault{
	{"J01", library, "TestJitter/J01_", []mutant.Edit{edit("engine.go", "	if e.jitter() {\n		e.spawn(e.follow)\n", "	e.spawn(e.follow)\n	if e.jitter() {\n")}},
	{"J01", daemon, "TestStartupJitter/J01_J10_", []mutant.Edit{edit("cmd/regent/internal/node/node.go", "	if n.opts.Config.StartupJitterMax == 0 {\n", "	if true {\n")}},
	{"J02", library, "TestJitter/J02_", []mutant.Edit{edit("engine.go", "	wait := e.cfg.StartupJitterMin\n", "	wait := time.Duration(0)\n")}},
	{"J03", library, "TestJitter/J03_", []mutant.Edit{edit("engine.go", "	wait := e.cfg.StartupJitterMin\n", "	wait := max(e.cfg.StartupJitterMin, time.Second)\n")}},
	{"J04", library, "TestJitter/J04_", []mutant.Edit{edit("engine.go", "	wait := e.cfg.StartupJitterMin\n", "	wait := e.cfg.StartupJitterMin + mrand.N(time.Second)\n")}},
	{"J05", library, "TestConfig/J05_", []mutant.Edit{edit("config.go", "	check(c.StartupJitterMin >= 0, \"startupJitterMin\", c.StartupJitterMin, \"cannot be negative\")\n", "")}},
	{"J06", library, "TestConfig/J06_", []mutant.Edit{edit("config.go", "	check(c.StartupJitterMax >= c.StartupJitterMin, ", "	check(true, ")}},
	{"J07", library, "TestConfig/J07_", []mutant.Edit{edit("config.go", "	check(c.StartupJitterMax >= c.StartupJitterMin, ", "	check(c.StartupJitterMax > c.StartupJitterMin, ")}},
	{"J08", library, "TestJitter/J08_", []mutant.Edit{edit("keep.go", "		due := b.tries[0].sent + b.every\n", "		due := b.tries[0].sent + b.every - rand.N(time.Second)\n")}},
	{"J09", library, "TestJitter/J09_", []mutant.Edit{edit("engine.go", "trust(w, e.cfg.StopTimeout)*8/10)", "trust(w, e.cfg.StopTimeout)*9/10)")}},
	{"J10", library, "TestJitter/J10_", []mutant.Edit{edit("engine.go", "	if e.again {\n		return e.ctx.Err() == nil\n", "	if e.again || e.m.runs > 0 {\n		return e.ctx.Err() == nil\n")}},
	{"J11", library, "TestFleet/J11_fifty", []mutant.Edit{edit("read.go", "	case e.claimed(s, l):\n", "")}},
	{"J11", daemon, "TestFleet/J01_J11_J13_", []mutant.Edit{edit("cmd/regent/internal/node/node.go", "	if n.opts.Config.StartupJitterMax == 0 {\n", "	if true {\n"),
		edit("cmd/regent/stores.go", "			if use.jitter > 0 {\n", "			if use.jitter < 0 {\n")}},
	{"J12", library, "TestJitter/J12_", []mutant.Edit{edit("spread.go", "	return began + e.cfg.StartupJitterMax + min(e.reservation(), time.Second)\n", "	return began + e.cfg.StartupJitterMax + e.reservation()\n")}},
	{"J13", library, "TestFleet/J13_", []mutant.Edit{edit("engine.go", "		e.phase = mrand.Float64()\n", "		e.phase = 0.5\n")}},
	{"J14", daemon, "TestStartupJitter/J01_J14_", []mutant.Edit{edit("config.go", "	c.StartupJitterMax = 5 * time.Second\n", "")}},
	{"J15", library, "TestFleet/J15_the_smallest", []mutant.Edit{edit("choose.go", "	if end := e.coldStartEnd(s); end > 0 && l.Next != e.m.ID {\n", "	if end := e.coldStartEnd(s); end > 0 && l.Epoch == 0 {\n")}},
	{"J15", library, "TestFleet/J15_after_the_death", []mutant.Edit{edit("spread.go", "	if s != nil && s.foundHeld && !s.seenLed {\n", "	if s != nil && s.foundHeld && !s.seenLed && s.fenced > 0 {\n")}},
	{"J15", daemon, "TestFleet/J15_", []mutant.Edit{edit("choose.go", "	if end := e.coldStartEnd(s); end > 0 && l.Next != e.m.ID {\n", "	if end := e.coldStartEnd(s); end > 0 && l.Epoch == 0 {\n")}},
}

var lockFaults = []fault{
	{"L01", "store/redis", "TestLock/L01_", []mutant.Edit{edit("store/redis/swap.go", "	return !l.Vacant() && l.Via == \"\" && l.Duration > 0 &&", "	return l.Vacant() && l.Via == \"\" && l.Duration > 0 &&")}},
	{"L02", "store/redis", "TestLock/L02_", []mutant.Edit{edit("store/redis/swap.go", "	switch err := res.Error(); {\n	case err == nil:\n		l.Rev = rev\n", "	switch err := res.Error(); {\n	case err == nil || rueidis.IsRedisNil(err):\n		l.Rev = rev\n")}},
	{"L03", "store/redis", "TestLock/L03_", []mutant.Edit{edit("config.go", "	c.RenewInterval = 10 * time.Second\n", "	c.RenewInterval = 20 * time.Second\n")}},
	{"L04", library, "TestLock/L04_a_failing", []mutant.Edit{edit("config.go", "[]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},", "[]time.Duration{time.Second, time.Second, 2 * time.Second},")}},
	{"L04", daemon, "TestLock/L04_", []mutant.Edit{edit("follow.go", "	e.mu.Unlock()\n	e.giveBack(s, l, \"\", reasonAbandoned)\n", "	e.mu.Unlock()\n")}},
	{"L05", library, "TestLock/L05_", []mutant.Edit{edit("round.go", "		d *= 2\n", "")}},
	{"L06", library, "TestLock/L06_a_standby", []mutant.Edit{edit("round.go", "		if v == expired && s.lease.Via == \"\" {\n			v = free\n", "		if v == expired && s.lease.Via == \"\" {\n			v = taken\n")}},
	{"L07", daemon, "TestRedis/L07_", []mutant.Edit{edit("cmd/regent/main.go", "	if !s.Reaper || ", "	if true || ")}},
	{"L08", daemon, "TestRedis/L08_", []mutant.Edit{edit("config.go", "return w - w/500 - g }", "return 2 * w }")}},
	{"L09", library, "TestLock/L09_", []mutant.Edit{edit("follow.go", "		case errors.Is(out.Err, driver.ErrConflict):\n			e.forget(s, bids[i].Nonce)\n", "		case errors.Is(out.Err, driver.ErrConflict):\n			e.received(s, bids[i], nil, now)\n")}},
	{"L10", library, "TestLock/L10_", []mutant.Edit{edit("follow.go", "	case l.Vacant():\n		return free, 0\n", "	case l.Vacant() || e.cfg.OwnLease:\n		return free, 0\n")}},
	{"L11", library, "TestLock/L11_", []mutant.Edit{edit("keep.go", "	next.Nonce = newNonce()\n", "	next.Nonce = newNonce()\n	next.Epoch++\n")}},
	{"L12", library, "TestLock/L12_", []mutant.Edit{edit("follow.go", "		if !mine(got) {\n			return got, true\n		}\n", "")}},
	{"L13", "gate", "TestGate/L13_reads", []mutant.Edit{edit("gate/gate.go", "		if !ok {\n			g.refuse(w, r, \"this node does not lead\")\n			return\n		}\n", "		_ = ok\n")}},
}

var preferenceFaults = []fault{
	{"P01", library, "TestRank/P01_the_higher", []mutant.Edit{edit("rank.go", "cmp.Compare(b.Priority, a.Priority)", "cmp.Compare(a.Priority, b.Priority)")}},
	{"P01", daemon, "TestRanks/P01_with_preemption", []mutant.Edit{edit("choose.go", "	preempt := e.cfg.Preempt && ", "	preempt := !e.cfg.Preempt && ")}},
	{"P02", library, "TestHandOff/P02_the_named", []mutant.Edit{edit("round.go", "	if now < e.calmUntil || e.cfg.Rank != RankFirst || ", "	if now >= e.calmUntil || e.cfg.Rank != RankFirst || ")}},
	{"P03", library, "TestHealth/P03_an_unhealthy_leader", []mutant.Edit{edit("choose.go", "				e.end(ErrUnhealthy, to, t)\n", "")}},
	{"P04", library, "TestRank/P04_", []mutant.Edit{edit("rank.go", "		return cmp.Compare(place(a), place(b))\n", "		_ = place\n		return 0\n")}},
}

// TestFaultsApply checks that each scenario has a fault, that each fault still fits the code, and that its test exists.
func TestFaultsApply(t *testing.T) {
	found := proofs(t)
	for _, id := range scenarios() {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.id == id }) {
			t.Errorf("%s has no fault that its test must find", id)
		}
	}
	for _, f := range faults {
		if err := mutant.Check(root, f.edits...); err != nil {
			t.Errorf("%s: %v", f.id, err)
		}
		proved := slices.ContainsFunc(found[f.id], func(path string) bool { return filepath.Dir(path) == filepath.Clean(f.dir) })
		if _, subtest, ok := strings.Cut(f.test, "/"); !ok || !strings.Contains(subtest, f.id) || !proved {
			t.Errorf("%s: package %s has no test %s that proves it", f.id, f.dir, f.test)
		}
	}
}

// TestFaults runs the test of each scenario over the code with its fault. It takes half an hour.
func TestFaults(t *testing.T) {
	only := os.Getenv("REGENT_FAULTS")
	if only == "" {
		t.Skip("compiles and runs a test for each scenario: 'make soak' does it")
	}
	slots := make(chan struct{}, 2)
	for _, f := range faults {
		if only != "all" && !slices.ContainsFunc(strings.Split(only, ","), func(p string) bool { return strings.HasPrefix(f.dir+":"+f.id, p) || f.id == p }) {
			continue
		}
		t.Run(f.id+"_"+strings.ReplaceAll(f.test, "/", "_"), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			f.run(t)
		})
	}
}

// run fails if the test of a fault passes.
func (f fault) run(t *testing.T) {
	list, err := mutant.Overlay(root, t.TempDir(), f.edits...)
	if err != nil {
		t.Fatal(err)
	}
	name, subtest, _ := strings.Cut(f.test, "/")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "5m", "-run", "^"+name+"$/^"+subtest, ".")
	cmd.Dir = filepath.Join(root, f.dir)
	// As a variable, so that tests which build programs build them with the fault.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -overlay="+list)
	out, err := cmd.CombinedOutput()

	failed := bytes.Contains(out, []byte("--- FAIL: "+name)) || bytes.Contains(out, []byte("\npanic: "))
	if err == nil || !failed {
		t.Errorf("%s passes with a fault of %s: %v\n%s", f.test, f.id, err, out)
	}
}
