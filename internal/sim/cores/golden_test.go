package cores

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/core"
)

var update = flag.Bool("update", false, "write the golden traces anew")

// scenario is a run with fixed times instead of random ones: requests, answers and notifications take one millisecond
// each, duties stop after one millisecond, and all clocks are right.
type scenario struct {
	name  string
	about string
	ids   string        // of the members, one letter each; they start 100 ms apart
	own   bool          // elections have leases of their own
	from  time.Duration // the trace begins here
	until time.Duration
	setup func(s *sim)
}

const ms = time.Millisecond

var scenarios = []scenario{
	{
		name: "cold_start", ids: "ab", until: 2000 * ms,
		about: "Two members start. Both join; a is first and claims e. b finds it held, and watches the " +
			"heartbeat of a.",
	},
	{
		name: "release_and_notification", ids: "ab", from: 3000 * ms, until: 3100 * ms,
		about: "a leads e, b is a candidate. a is asked to step down: its duty stops, then it releases e. The store\n" +
			"notifies b, and b claims at once: it does not read first, since the claim is conditional on the revision.",
		setup: func(s *sim) {
			s.at(3000*ms, func() {
				s.procs[0].ask(func(id uint64) core.Input { return core.StepDown{ID: id, Election: "e"} })
			})
		},
	},
	{
		name: "crash_and_takeover", ids: "ab", from: 3000 * ms, until: 11000 * ms,
		about: "a leads e and crashes. b watches the heartbeat of a expire on its own clock, waits for the takeover\n" +
			"delay, reads again, revokes the heartbeat, and claims e.",
		setup: func(s *sim) {
			s.at(3000*ms, s.procs[0].crash)
		},
	},
	{
		name: "lost_answer_of_a_claim", ids: "a", own: true, until: 3000 * ms,
		about: "a claims e, with a lease of its own. The claim is applied, but its answer is lost. Once " +
			"the request has\n" +
			"timed out a reads e, finds its own claim, and adopts it. The term counts from when the claim was sent.",
		setup: func(s *sim) {
			s.at(2*ms, func() { s.procs[0].link.noAnswers = 10 * ms })
		},
	},
	{
		name: "handoff", ids: "abc", from: 3000 * ms, until: 3700 * ms,
		about: "a leads e; b and c are candidates. c is asked to hand e over to b: it edits the record of " +
			"e, and touches\n" +
			"the heartbeat register of a. The next heartbeat of a meets that, so a reads e, ends its term, " +
			"and leaves e\n" +
			"vacant, reserved for b. b claims on the notification; c holds back.",
		setup: func(s *sim) {
			s.at(3000*ms, func() {
				s.procs[2].ask(func(id uint64) core.Input { return core.HandOff{ID: id, Election: "e", To: "b"} })
			})
		},
	},
	{
		name: "flush_of_the_store", ids: "ab", from: 3100 * ms, until: 12000 * ms,
		about: "a leads e, b is a candidate. The store loses everything. The next heartbeat of a is " +
			"refused, so a ends its\n" +
			"term and joins again. Both have seen epoch 1, so they wait one lease, and the next claim has epoch 2.",
		setup: func(s *sim) {
			s.at(3100*ms, func() {
				s.note("the store loses everything")
				s.flush()
			})
		},
	},
	{
		name: "hung_store", ids: "a", from: 3100 * ms, until: 16000 * ms,
		about: "a leads e. The store takes requests and answers none for ten seconds. a ends its term " +
			"before the deadline\n" +
			"of its last heartbeat, whatever is under way, and joins again when the store answers.",
		setup: func(s *sim) {
			s.at(3100*ms, func() {
				s.note("the store hangs for 10 seconds")
				s.procs[0].link.noAnswers = 13100 * ms
				s.procs[0].link.noRequests = 13100 * ms
			})
		},
	},
	{
		name: "frozen_leader", ids: "ab", from: 3100 * ms, until: 15000 * ms,
		about: "a leads e and is frozen for ten seconds, as by SIGSTOP. b takes over when the lease has " +
			"expired. When a\n" +
			"goes on, its deadline has passed: it has not been believed since, ends its term, and joins again.",
		setup: func(s *sim) {
			s.at(3100*ms, func() {
				s.procs[0].freeze(10 * time.Second)
			})
		},
	},
}

// TestGolden compares what happens in each scenario with the text in testdata, so that a change of behaviour is read by
// whoever reviews it. With -update it writes the text.
func TestGolden(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			got := sc.run(t)
			path := filepath.Join("testdata", sc.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}

			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; if that is meant: go test -run TestGolden ./internal/sim/cores -update\n%s", path,
					difference(string(want), got))
			}
		})
	}
}

// run returns the trace of a scenario.
func (sc *scenario) run(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# " + strings.ReplaceAll(sc.about, "\n", "\n# ") + "\n\n" + traceHeader + "\n")
	s := new(sim)
	s.reset(0, func(line string) {
		if s.now >= sc.from {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	})

	s.exact = false
	s.cfg = profile()
	s.faults = faults{over: true, fixed: ms}
	s.end = sc.until
	s.elect("e")
	for i, id := range sc.ids {
		cfg := s.cfg
		cfg.ID = string(id)
		if sc.own {
			ownLeases(&cfg)
		}
		p := s.add(cfg)
		p.name = cfg.ID
		s.at(time.Duration(i)*100*ms, p.start)
	}
	if sc.setup != nil {
		sc.setup(s)
	}
	s.loop()
	if s.err != nil {
		t.Fatal(s.err)
	}
	return b.String()
}

// difference shows the first line that differs.
func difference(want, got string) string {
	a := strings.Split(want, "\n")
	b := strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		x, y := lineAt(a, i), lineAt(b, i)
		if x != y {
			return "want " + x + "\ngot  " + y
		}
	}
	return ""
}

func lineAt(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "(the end)"
}
