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
var faults = slices.Concat(coordinatorFaults, epochFaults, fleetFaults, lockFaults, preferenceFaults, seedFaults)

const (
	library  = "."
	settings = "cmd/regent/internal/config"
	daemon   = "cmd/regent"
)

var coordinatorFaults = []fault{
	{"C01", settings, "TestProfiles/C01_", []mutant.Edit{edit("config.go",
		"		LeaseDuration:       6 * time.Second,\n",
		"		LeaseDuration:       6 * time.Second,\n		Ineligible:          true,\n")}},
	{"C02", library, "TestWatch/C02_", []mutant.Edit{edit("internal/core/unhealthy.go",
		"	return c.cfg.Eligible && !c.closing &&", "	return !c.closing &&")}},
	{"C02", daemon, "TestServe/C02_", []mutant.Edit{edit("internal/core/unhealthy.go",
		"	return c.cfg.Eligible && !c.closing &&", "	return !c.closing &&")}},
	{"C03", library, "TestLead/C03_", []mutant.Edit{edit("run.go", "		go t.serve()\n",
		"		go func() { <-st.Context().Done(); t.dutyStopped(false) }()\n")}},
	{"C04", library, "TestLead/C04_", []mutant.Edit{edit("internal/core/candidate.go",
		"	return e.seen && !e.stale && (c.now < e.pollAt || c.idling(e)) && !expiring\n",
		"	return e.seen && !e.stale && !expiring\n")}},
	{"C04", library, "TestLead/C04_a_taken", []mutant.Edit{edit("internal/core/notice.go",
		"		e.stale = true\n		e.call.old = true\n		c.enqueue(e.ref)\n	default: //",
		"	default: //")}},
	{"C05", library, "TestDuties/C05_", []mutant.Edit{edit("duty.go", "slices.Backward(running)",
		"slices.All(running)")}},
	{"C06", library, "TestLead/C06_", []mutant.Edit{edit("internal/core/former.go",
		"	if sent, kept := c.vacate(&e.entity, &e.vac, &e.rec); !sent {\n", "	if kept := true; kept {\n"),
		edit("internal/core/claim.go", "	c.giveBack(e)\n}\n\n// claimIndex", "}\n\n// claimIndex")}},
	{"C07", library, "TestTakeover/C07_", []mutant.Edit{edit("internal/core/candidate.go",
		"		s.revoke = true\n", "")}},
	{"C07", daemon, "TestServe/C07_after_kill_9_at_a_30s_lease_a_standby_leads_at_once_lock",
		[]mutant.Edit{edit("cmd/regent/main.go", "	if !s.Reaper || ", "	if true || "),
			edit("cmd/regent/stores.go", "NoWitness: use.children", "NoWitness: true")}},
	{"C08", "cmd/regent/internal/orchestrate", "TestOrchestrator/C08_",
		[]mutant.Edit{edit("cmd/regent/internal/orchestrate/load.go", "readCheckpoint(t.Saved())",
			"readCheckpoint(nil)")}},
	{"C09", library, "TestLead/C09_", []mutant.Edit{edit("internal/core/candidate.go",
		"	case r.Vacant(): // rule 10: no takeover delay after a release\n",
		"	case r.Vacant() || c.runs > 1:\n")}},
	{"C10", library, "TestLead/C10_", []mutant.Edit{edit("internal/core/notice.go",
		"		e.stale = true\n		e.call.old = true\n		c.enqueue(e.ref)\n	default: //",
		"	default: //"),
		edit("internal/core/claim.go", "		c.failed()\n	}\n	e.stale = true\n",
			"		c.failed()\n	}\n")}},
	{"C11", library, "TestTakeover/C11_", []mutant.Edit{edit("internal/core/core.go",
		"return w - w/500 - cfg.StopTimeout }", "return 2 * w }")}},
	{"C12", library, "TestTakeover/C12_a_leader_that_is_back", []mutant.Edit{edit("internal/core/watch.go",
		"	return w.gone || w.began >= w.expires().Add(delay)\n", "	return w.gone || w.began >= w.expires()\n"),
		edit("internal/core/watch.go", "	end := w.expires().Add(delay)\n", "	end := w.expires()\n")}},
	{"C12", library, "TestTakeover/C12_the_head_start", []mutant.Edit{edit("internal/core/rank.go",
		"	if c.returned(r) || r.Next", "	if r.Next")}},
	{"C12", daemon, "TestTakeoverDelay/C12_a_silent_leader", []mutant.Edit{edit("internal/core/watch.go",
		"	return w.gone || w.began >= w.expires().Add(delay)\n", "	return w.gone || w.began >= w.expires()\n"),
		edit("internal/core/watch.go", "	end := w.expires().Add(delay)\n", "	end := w.expires()\n")}},
	{"C13", library, "TestTakeover/C13_", []mutant.Edit{edit("internal/core/watch.go",
		"	return w.gone || w.began >= w.expires().Add(delay)\n", "	return w.gone || w.began >= w.expires()\n"),
		edit("internal/core/watch.go", "	end := w.expires().Add(delay)\n", "	end := w.expires()\n")}},
	{"C14", library, "TestEvents/C14_", []mutant.Edit{edit("event.go", "Election: e.Election, Epoch: e.Epoch,\n",
		"Election: e.Election,\n")}},
	{"C15", library, "TestEvents/C15_every", []mutant.Edit{edit("internal/core/event.go",
		"		return map[string]string{\"reason\": e.Reason}\n	case EventDutyStuck:\n",
		"		return nil\n	case EventDutyStuck:\n")}},
	{"C15", library, "TestEvents/C15_whoever", []mutant.Edit{edit("internal/core/leader.go",
		"	if p := k.ended; p.Epoch != 0 {\n", "	if p := k.ended; p.Epoch == maxEpoch {\n")}},
	{"C16", library, "TestEvents/C16_", []mutant.Edit{edit("internal/core/election.go",
		"Holder: r.Holder, Previous: was.leader,\n", "Holder: r.Holder,\n")}},
	{"C17", library, "TestTakeover/C17_", []mutant.Edit{edit("run.go",
		"	go r.shell.Do(core.Close{Cause: core.Panicked})\n", "")}},
	{"C18", settings, "TestWarnings/C18_", []mutant.Edit{edit("cmd/regent/internal/config/yaml.go",
		"name == \"cluster_coordinator\" || name == \"clusterCoordinator\"", "name == \"\"")}},
	{"C19", settings, "TestWarnings/C19_", []mutant.Edit{edit("cmd/regent/internal/config/upgrade.go",
		"	c.coordinator = true\n", "")}},
	{"C20", daemon, "TestRollingRestart/C20_", []mutant.Edit{edit("cmd/regent/internal/orchestrate/load.go",
		"readCheckpoint(t.Saved())", "readCheckpoint(nil)")}},
	{"C21", library, "TestLead/C21_", []mutant.Edit{edit("run.go", "	c.StartDelay = cfg.StartupJitterMin\n",
		"	c.StartDelay = cfg.StartupJitterMin + 500*time.Millisecond\n")}},
	{"C22", library, "TestConfig/C22_a_negative_delay", []mutant.Edit{edit("config.go",
		"	check(c.TakeoverDelay >= 0, \"takeoverDelay\", c.TakeoverDelay, \"cannot be negative\")\n", "")}},
}

var epochFaults = []fault{
	{"E01", library, "TestFence/E01_", []mutant.Edit{edit("token.go",
		"	case t.Epoch < highest.Epoch:\n		return tokenStale\n",
		"	case t.Epoch < highest.Epoch:\n		return tokenCurrent\n")}},
	{"E02", library, "TestFence/E02_", []mutant.Edit{edit("fence.go", "	f.highest = t\n", "")}},
	{"E03", library, "TestFence/E03_", []mutant.Edit{edit("fence.go", "	if f.Off {\n		return nil\n	}\n",
		"")}},
	{"E04", library, "TestFence/E04_", []mutant.Edit{edit("member.go", "	if f := m.fences[election]; f != nil {\n",
		"	if f := m.fences[election]; f != nil && epoch == 0 {\n")}},
	{"E05", library, "TestStats/E05_", []mutant.Edit{edit("internal/core/heartbeat.go",
		"slow.ratio() <= c.cfg.ContentionThreshold", "slow.ratio() <= 100*c.cfg.ContentionThreshold")}},
	{"E06", library, "TestStats/E06_", []mutant.Edit{edit("internal/core/heartbeat.go",
		"c.now >= c.contended.Add(contentionQuiet)", "c.now >= c.contended")}},
	{"E07", library, "TestStats/E07_", []mutant.Edit{edit("run.go", "	if !cfg.ContentionDetectionOff {\n",
		"	if true {\n")}},
	{"E08", library, "TestStats/E08_", []mutant.Edit{edit("stats.go", "percentile(recent, 99)",
		"percentile(recent, 50)")}},
	{"E09", library, "TestStats/E09_", []mutant.Edit{edit("stats.go", "	if len(recent) < minHeartbeats {\n",
		"	if len(recent) == 0 {\n")}},
	{"E10", library, "TestStats/E10_", []mutant.Edit{edit("internal/core/event.go", "const latencies = 100 ",
		"const latencies = 1000 ")}},
	{"E11", library, "TestFence/E11_", []mutant.Edit{edit("fence.go", "age < 0 || age > f.Grace || ", "age < 0 || ")}},
	{"E12", library, "TestFence/E12_", []mutant.Edit{edit("fence.go",
		"	if t.Epoch+1 != f.highest.Epoch || t.against(f.previous) == tokenStale {\n", "	if t.Epoch == 0 {\n")}},
	{"E13", library, "TestFence/E13_the_highest", []mutant.Edit{edit("fence.go",
		"		if err := writeFence(f.Path, t); err != nil {\n", "		if err := error(nil); err != nil {\n")}},
}

var fleetFaults = []fault{
	{"J01", library, "TestJitter/J01_", []mutant.Edit{edit("internal/core/step.go",
		"	if !c.started || c.now < c.startAt { // rule 11", "	if !c.started { // rule 11"),
		edit("internal/core/step.go", "	case c.now < c.startAt:\n		return c.startAt\n", "")}},
	{"J01", daemon, "TestStartupJitter/J01_J10_", []mutant.Edit{edit("cmd/regent/internal/node/node.go",
		"	if n.opts.Config.StartupJitterMax == 0 {\n", "	if true {\n")}},
	{"J02", library, "TestJitter/J02_", []mutant.Edit{edit("run.go", "	c.StartDelay = cfg.StartupJitterMin\n", "")}},
	{"J03", library, "TestJitter/J03_", []mutant.Edit{edit("run.go", "	c.StartDelay = cfg.StartupJitterMin\n",
		"	c.StartDelay = max(cfg.StartupJitterMin, time.Second)\n")}},
	{"J04", library, "TestJitter/J04_", []mutant.Edit{edit("run.go", "	c.StartDelay = cfg.StartupJitterMin\n",
		"	c.StartDelay = cfg.StartupJitterMin + rand.N(time.Second)\n")}},
	{"J05", library, "TestConfig/J05_", []mutant.Edit{edit("config.go",
		"	check(c.StartupJitterMin >= 0, \"startupJitterMin\", c.StartupJitterMin, \"cannot be negative\")\n", "")}},
	{"J06", library, "TestConfig/J06_", []mutant.Edit{edit("config.go",
		"	check(c.StartupJitterMax >= c.StartupJitterMin, ", "	check(true, ")}},
	{"J07", library, "TestConfig/J07_", []mutant.Edit{edit("config.go",
		"	check(c.StartupJitterMax >= c.StartupJitterMin, ",
		"	check(c.StartupJitterMax > c.StartupJitterMin, ")}},
	{"J08", library, "TestJitter/J08_", []mutant.Edit{edit("internal/core/heartbeat.go",
		"		b.due = max(c.now, b.tries[0].sent.Add(b.every))\n",
		"		b.due = max(c.now, b.tries[0].sent.Add(b.every-time.Duration(c.src.Nonce()%1e9)))\n")}},
	{"J09", library, "TestJitter/J09_", []mutant.Edit{edit("internal/core/core.go",
		"	return min(every, cfg.trust(w)*8/10)\n", "	return min(every, cfg.trust(w)*9/10)\n")}},
	{"J10", library, "TestJitter/J10_", []mutant.Edit{edit("run.go",
		"	if again {\n		c.StartDelay = time.Second\n",
		"	if again || r.m.last != nil {\n		c.StartDelay = time.Second\n")}},
	{"J11", library, "TestFleet/J11_fifty", []mutant.Edit{edit("internal/core/notice.go",
		"	case c.claimedByOther(e, &r):\n", "")}},
	{"J11", daemon, "TestFleet/J01_J11_J13_", []mutant.Edit{edit("cmd/regent/internal/node/node.go",
		"	if n.opts.Config.StartupJitterMax == 0 {\n", "	if true {\n"),
		edit("cmd/regent/stores.go", "			if use.jitter > 0 {\n", "			if use.jitter < 0 {\n")}},
	{"J12", library, "TestJitter/J12_", []mutant.Edit{edit("internal/core/spread.go",
		"	return began.Add(c.cfg.StartDelayMax + min(c.cfg.HeartbeatInterval, time.Second))\n",
		"	return began\n")}},
	{"J13", library, "TestFleet/J13_", []mutant.Edit{edit("run.go", "	r.phase = rand.Float64()\n",
		"	r.phase = 0.5\n")}},
	{"J14", daemon, "TestStartupJitter/J01_J14_", []mutant.Edit{edit("config.go",
		"	c.StartupJitterMax = 5 * time.Second\n", "")}},
	{"J14", "cmd/regent/internal/config", "TestProfiles/J14_a_store_in_a_bucket", []mutant.Edit{
		edit("cmd/regent/internal/config/resolve.go", "	case byStore:\n		profile = \"fleet\"\n", "")}},
	{"J15", library, "TestFleet/J15_the_smallest", []mutant.Edit{edit("internal/core/rank.go",
		"		if end := c.coldStartEnd(e); end > 0 {\n",
		"		if end := c.coldStartEnd(e); end > 0 && r.Epoch == 0 {\n"),
		edit("internal/core/rank.go", "	if end := c.coldStartEnd(e); end > 0 && r.Next != c.cfg.ID {\n",
			"	if end := c.coldStartEnd(e); end > 0 && r.Epoch == 0 {\n")}},
	{"J15", library, "TestFleet/J15_after_the_death", []mutant.Edit{edit("internal/core/spread.go",
		"	if e != nil && e.foundHeld && !e.seenLed {\n",
		"	if e != nil && e.foundHeld && !e.seenLed && e.fencedRow > 0 {\n")}},
	{"J15", daemon, "TestFleet/J15_", []mutant.Edit{edit("internal/core/rank.go",
		"		if end := c.coldStartEnd(e); end > 0 {\n",
		"		if end := c.coldStartEnd(e); end > 0 && r.Epoch == 0 {\n"),
		edit("internal/core/rank.go", "	if end := c.coldStartEnd(e); end > 0 && r.Next != c.cfg.ID {\n",
			"	if end := c.coldStartEnd(e); end > 0 && r.Epoch == 0 {\n")}},
}

var lockFaults = []fault{
	{"L01", "store/redis", "TestLock/L01_", []mutant.Edit{edit("store/redis/request.go",
		"	return !l.Vacant() && l.Via == \"\" && l.Duration > 0 &&",
		"	return l.Vacant() && l.Via == \"\" && l.Duration > 0 &&")}},
	{"L02", "store/redis", "TestLock/L02_", []mutant.Edit{edit("store/redis/swap.go",
		"	switch {\n	case err == nil:\n		l.Rev = rev\n",
		"	switch {\n	case err == nil || rueidis.IsRedisNil(err):\n		l.Rev = rev\n")}},
	{"L03", "store/redis", "TestLock/L03_", []mutant.Edit{edit("config.go", "	c.RenewInterval = 10 * time.Second\n",
		"	c.RenewInterval = 20 * time.Second\n")}},
	{"L04", library, "TestLock/L04_a_failing", []mutant.Edit{edit("config.go",
		"[]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},",
		"[]time.Duration{time.Second, time.Second, 2 * time.Second},")}},
	{"L04", daemon, "TestLock/L04_", []mutant.Edit{edit("internal/core/claim.go",
		"	c.giveBack(e)\n}\n\n// claimIndex", "}\n\n// claimIndex")}},
	{"L05", library, "TestLock/L05_", []mutant.Edit{edit("internal/core/candidate.go", "		d *= 2\n", "")}},
	{"L06", library, "TestLock/L06_a_standby", []mutant.Edit{edit("internal/core/candidate.go",
		"	case r.Via == \"\" && e.own.expired(c.cfg.TakeoverDelay): // the claim is conditional on that revision\n"+
			"		return free, 0\n", "")}},
	{"L07", daemon, "TestRedis/L07_", []mutant.Edit{edit("cmd/regent/main.go", "	if !s.Reaper || ",
		"	if true || ")}},
	{"L08", daemon, "TestRedis/L08_", []mutant.Edit{edit("internal/core/core.go",
		"return w - w/500 - cfg.StopTimeout }", "return 2 * w }")}},
	{"L09", library, "TestLock/L09_", []mutant.Edit{edit("internal/shell/requests.go",
		"	case errors.Is(err, driver.ErrConflict):\n		return core.Conflict\n",
		"	case errors.Is(err, driver.ErrConflict):\n		return core.Done\n")}},
	{"L10", library, "TestLock/L10_", []mutant.Edit{edit("internal/core/candidate.go",
		"	case r.Vacant(): // rule 10: no takeover delay after a release\n",
		"	case r.Vacant() || c.cfg.OwnLease:\n")}},
	{"L11", library, "TestLock/L11_", []mutant.Edit{edit("internal/core/heartbeat.go",
		"	r.Nonce = c.src.Nonce()\n", "	r.Nonce = c.src.Nonce()\n	r.Epoch++\n")}},
	{"L12", library, "TestLock/L12_", []mutant.Edit{edit("internal/core/former.go",
		"	case !heldBy(r, v.who, v.epoch): // rule 4", "	case r.Vacant(): // rule 4")}},
	{"L13", "gate", "TestGate/L13_reads", []mutant.Edit{edit("gate/gate.go",
		"		if !ok {\n			g.refuse(w, r, \"this node does not lead\")\n			return\n		}\n",
		"		_ = ok\n")}},
}

var preferenceFaults = []fault{
	{"P01", library, "TestRank/P01_the_higher", []mutant.Edit{edit("internal/core/rank.go",
		"		return ^priority //", "		return priority //")}},
	{"P01", daemon, "TestRanks/P01_with_preemption", []mutant.Edit{edit("internal/core/unhealthy.go",
		"return c.cfg.Preempt && c.rank.kind", "return !c.cfg.Preempt && c.rank.kind")}},
	{"P02", library, "TestHandOff/P02_the_named", []mutant.Edit{edit("internal/core/notice.go",
		"	case c.rank.kind != rankFirst: //", "	case c.rank.kind == rankFirst: //")}},
	{"P03", library, "TestHealth/P03_an_unhealthy_leader", []mutant.Edit{edit("internal/core/unhealthy.go",
		"			c.end(e, Unhealthy, to)\n", "")}},
	{"P04", library, "TestRank/P04_", []mutant.Edit{edit("internal/core/rank.go", "			return i\n",
		"			return len(k.regions)\n")}},
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
		proved := slices.ContainsFunc(found[f.id],
			func(path string) bool { return filepath.Dir(path) == filepath.Clean(f.dir) })
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
		if only != "all" && !slices.ContainsFunc(strings.Split(only, ","),
			func(p string) bool { return strings.HasPrefix(f.dir+":"+f.id, p) || f.id == p }) {
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
