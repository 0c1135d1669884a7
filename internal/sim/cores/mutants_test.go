package cores

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/mutant"
	"github.com/regentd/regent/internal/virtual"
)

const root = "../../.." // of the repository

// fault is a fault of the core, of the fence, or of the simulation itself, that the seeds must show by a violation
// which begins as found says.
type fault struct {
	name  string
	found string // a regular expression
	edits []edit
}

// edit replaces a text that stands exactly once in a file.
type edit struct{ file, old, new string }

const (
	inCore  = "internal/core/"
	inCores = "internal/sim/cores/"
)

// mutants breaks each of the invariants that the simulation checks. internal/explore lists what only the explorer or a
// test of the core finds.
var mutants = []fault{
	{"a_heartbeat_expires_at_once", "rule 2: ", []edit{{inCore + "watch.go",
		"w.began >= w.expires().Add(delay)", "w.began >= w.since"}}},
	{"a_holder_counts_from_the_answer", "(the duty|.* lead .* at once|.* the duty of)", []edit{{inCore + "heartbeat.go",
		"\tasked := b.check\n", "\tb.deadline = c.now.Add(b.trust)\n\tasked := b.check\n"}}},
	{"a_claim_ignores_the_highest_epoch_seen", "rule 5: .* but was shown", []edit{{inCore + "claim.go",
		"\treturn max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1\n", "\treturn r.Epoch + 1\n"}}},
	{"a_release_resets_the_epoch", "rule 4: .* falls from epoch", []edit{{inCore + "record.go",
		"Rev: r.Rev, Epoch: r.Epoch, Nonce: nonce", "Rev: r.Rev, Epoch: 0, Nonce: nonce"}}},
	{"a_release_loses_the_pause", "rule 4: .* loses the pause", []edit{{inCore + "record.go",
		"Paused: r.Paused, Data: r.Data, Past: ended", "Data: r.Data, Past: ended"}}},
	{"a_release_takes_any_record", "rule 4: .* releases", []edit{{inCore + "former.go",
		"case !heldBy(r, v.who, v.epoch):", "case r.Vacant():"}}},
	{"a_checkpoint_outlives_its_term", ".* writes the checkpoint", []edit{
		{inCore + "former.go", "\tc.endSaves(e)\n", ""},
		{inCore + "save.go", "\tif !c.saves(e, s.Epoch) || ", "\tif "}}},
	{"a_checkpoint_of_unknown_outcome_counts_as_saved", ".* and the store never took it", []edit{{inCore + "save.go",
		"\t\tc.saved(e, OutcomeUnknown)\n", "\t\tc.saved(e, OK)\n"}}},
	{"a_term_goes_on_that_a_fence_has_refused", ".* which a fence has refused", []edit{{inCore + "leader.go",
		"\tc.observe(in.Election, in.Newest)\n\tc.end(e, FencedOff, \"\")\n",
		"\tc.observe(in.Election, in.Newest)\n"}}},
	{"a_fence_accepts_older_epochs", "a fence of .* accepts epoch", []edit{{"token.go",
		"\tcase t.Epoch < highest.Epoch:\n\t\treturn tokenStale\n",
		"\tcase t.Epoch < highest.Epoch:\n\t\treturn tokenNewer\n"}}},
	{"a_reservation_is_ignored", ".* which was reserved for", []edit{{inCore + "rank.go",
		"\tif c.returned(r) || r.Next != \"\" && r.Next != anyone && r.Next != c.cfg.ID {\n",
		"\tif c.returned(r) {\n"}}},
	{"a_paused_election_is_claimed", ".* which is paused", []edit{{inCore + "candidate.go",
		"\tcase r.Paused:\n\t\treturn taken, Never\n", ""}}},
	{"the_next_join_waits_for_a_hung_heartbeat", "rule 9: .* does not join again", []edit{{inCore + "member.go",
		"\tm.call = call{} // rule 9", "\t// rule 9"}}},
	{"a_lease_of_its_own_is_not_ended_before_its_deadline", "rule 9: ", []edit{{inCore + "leader.go",
		"\tif c.now >= b.guardAt() { // rule 9", "\tif c.now < 0 { // rule 9"}}},
	{"a_member_is_not_dropped_before_its_deadline", "rule 9: ", []edit{{inCore + "member.go",
		"\tif c.now >= b.guardAt() { // rule 9", "\tif c.now < 0 { // rule 9"}}},
	{"a_lost_heartbeat_ends_no_term", ".* by a heartbeat that it was shown to have lost", []edit{{inCore + "member.go",
		"\t\tc.elections.all[i].doom = cause\n", ""}}},
	{"the_reaper_is_not_told_that_duties_have_stopped", "the reaper kills", []edit{
		{inCore + "member.go", "join again, as a new incarnation\")\n\tc.lifeline(&m.beat, true, false)\n",
			"join again, as a new incarnation\")\n"},
		{inCore + "former.go", "\tcase b.held == 0:\n\t\tc.lifeline(b, false, false)\n", ""}}},
	{"a_reaper_kills_who_holds_nothing", "the reaper kills .* no duty", []edit{{inCores + "reaper.go",
		"l.holds && !l.stopped && l.killAt <= now", "l.killAt <= now"},
		{inCores + "reaper.go", "\tif !over && m.holds && !m.stopped {\n", "\tif !over {\n"}}},
	{"a_reaper_releases_for_the_living", "a reaper releases .* which lives", []edit{{inCores + "reaper.go",
		"\tp.note(\"loses its reaper\")\n\tr.dead = true\n", "\tp.note(\"loses its reaper\")\n\tr.died()\n"}}},
	{"the_first_request_comes_before_the_jitter", "rule 11: ", []edit{{inCore + "step.go",
		"\tif !c.started || c.now < c.startAt {", "\tif !c.started {"}}},
	{"there_is_no_takeover_delay", "rule 10: ", []edit{{inCore + "watch.go",
		"w.began >= w.expires().Add(delay)", "w.began >= w.expires()"}}},
	{"a_member_joins_over_a_live_incarnation", ".* joins over", []edit{{inCore + "join.go",
		"\tif !r.Vacant() && !slices.Contains(c.endings, r.Holder) {\n",
		"\tif slices.Contains(c.endings, driver.Identity{}) {\n"}}},
	{"a_heartbeat_is_not_revoked_before_the_claim", "rule 6: ", []edit{{inCore + "candidate.go",
		"\t\treturn dead, 0\n", "\t\treturn free, 0\n"}}},
	{"a_rollback_is_not_waited_for", "rule 5: .* which shows epoch", []edit{{inCore + "rollback.go",
		"\te.barred = max(e.barred, c.now.Add(wait))\n", "\t_ = wait\n"}}},
	{"a_forgotten_join_counts_as_a_death", "rule 5: .* joining the store has forgotten", []edit{{inCore + "rollback.go",
		"\te.forgotten = holder\n\treturn true\n", "\treturn false\n"}}},
	{"nothing_of_its_own_is_given_back", ".* has no leader", []edit{{inCore + "candidate.go",
		"\t\tc.settleOwn(e)\n\t\treturn\n\t}\n\tc.contend(e)\n", "\t\treturn\n\t}\n\tc.contend(e)\n"}}},
	{"a_register_that_could_not_be_read_is_never_read_again", ".* has no leader", []edit{{inCore + "entity.go",
		"\tr.at = c.now.Add(wait)\n", "\tr.at = Never\n\t_ = wait\n"}}},
	{"a_request_waits_for_a_record_that_cannot_be_read", ".* has not answered request", []edit{{inCore + "election.go",
		"\tc.expireAsks(e)\n", ""}}},
	{"a_core_has_itself_called_again_and_again", ".* is called more than", []edit{{inCore + "request.go",
		"\tif len(e.asks) > 0 && c.now < e.asks[0].until {", "\tif len(e.asks) > 0 {"}}},
	{"a_register_is_removed_before_the_floor_is_raised", "rule 13: .* above the floor", []edit{{inCore + "retire.go",
		"\treturn t.isMember() || c.floor.seen && c.floor.rec.Epoch >= t.rec.Epoch\n", "\treturn true\n"}}},
	{"a_silent_member_is_revoked_at_once", "rule 2: p", []edit{
		{inCore + "retire.go", "	if expired := t.dead.expires().Add(c.cfg.TakeoverDelay); c.now < expired {\n",
			"	if expired := t.dead.expires().Add(c.cfg.TakeoverDelay); false && c.now < expired {\n"},
		{inCore + "retire.go", "	case c.now < t.rested:\n",
			"	case c.now < t.rested && t.phase != retireSilent:\n"}}},
	{"a_register_is_removed_at_once", "rule 13: .* which was released", []edit{{inCore + "retire.go",
		"idle: max(in.Idle, c.cfg.Rest)}", "idle: in.Idle}"}}},
	{"a_claim_ignores_the_floor", "epoch .* is granted after", []edit{{inCore + "claim.go",
		"\treturn max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1\n",
		"\treturn max(r.Epoch, c.memory[e.name]) + 1\n"}}},
	{"a_lost_claim_is_never_noticed", ".* and the store shows", []edit{
		{inCore + "sweep.go", "\t\tc.sweepLeft = max(c.sweepLeft, min(sweepBatch, len(c.held)))\n", ""},
		{inCore + "member.go", "\t\tc.checkClaims()\n", ""}}},
	{"a_held_election_is_claimed_without_a_read", "rule [246]: ", []edit{{inCore + "known.go",
		"\tcase !e.released || e.stale || !r.Vacant() || r.Epoch != c.memory[e.name]:\n",
		"\tcase r.Epoch != c.memory[e.name]:\n"}}},
	{"a_claim_without_a_read_is_on_an_older_record", "rule [45]: .* without a read", []edit{
		{inCore + "election.go", "\tc.forgetKnown(e.name)\n", ""},
		{inCore + "shown.go", "\tc.forgetKnown(r.Name)\n", ""},
		{inCore + "known.go", "\tcase !c.lately(&k) || r.Epoch != c.memory[e.name]:\n", "\tcase !c.lately(&k):\n"},
		{inCore + "known.go", "!r.Vacant() || r.Epoch != c.memory[e.name]:\n", "!r.Vacant():\n"}}},
	{"the_store_takes_writes_over_any_revision", ".", []edit{{inCores + "store.go",
		"\tcase reg.rec.Rev != q.send.Record.Rev:\n", "\tcase reg.rec.Rev == \"\" && q.send.Record.Rev != \"\":\n"}}},
}

// TestMutantsApply shows that the edits of every fault still fit the code.
func TestMutantsApply(t *testing.T) {
	for _, f := range mutants {
		if err := mutant.Check(root, f.overlay()...); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// TestMutants compiles the code with one fault, and some seed among the first 3,000 must show it. Each takes some
// seconds, so that without REGENT_MUTANTS, which "make soak" sets, only every tenth is tried.
func TestMutants(t *testing.T) {
	if testing.Short() || virtual.Raced {
		t.Skip("compiles the simulation once for each fault; left out in -short and with the race detector")
	}
	all := os.Getenv("REGENT_MUTANTS") != ""
	for i, f := range mutants {
		if all || i%10 == 0 {
			t.Run(f.name, func(t *testing.T) { f.mustBeFound(t) })
		}
	}
}

func (f *fault) overlay() []mutant.Edit {
	var edits []mutant.Edit
	for _, e := range f.edits {
		edits = append(edits, mutant.Edit{File: e.file, Old: e.old, New: e.new})
	}
	return edits
}

func (f *fault) mustBeFound(t *testing.T) {
	dir := t.TempDir()
	list, err := mutant.Overlay(root, dir, f.overlay()...)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-overlay", list, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", "^(TestSeeds|TestLiveness)$")
	run.Env = append(os.Environ(), "REGENT_SEEDS=3000", "REGENT_FROM=0", "REGENT_SEED=", "REGENT_ONLY="+f.found)
	out, _ := run.CombinedOutput()
	violation := regexp.MustCompile(`seed \d+ at \S+: ` + f.found + `.*`).FindString(string(out))
	if violation == "" || ctx.Err() != nil {
		t.Fatalf("no seed shows it: %v\n%s", ctx.Err(), out)
	}
	t.Log(strings.TrimSpace(violation))
}
