package house

import "github.com/regentd/regent/internal/mutant"

// seedFaults are faults of what other systems name and Regent has under other names.
var seedFaults = []fault{
	{"N01", daemon, "TestHealthCheck/N01_a_leader", []mutant.Edit{edit("cmd/regent/internal/node/node.go",
		"		n.Member.Health = n.checker.Unhealthy\n", "")}},
	{"N01", daemon, "TestHealthCheck/N01_a_command_that_is_missing", []mutant.Edit{edit("cmd/regent/reload.go",
		"		r.healthCheck(now)\n", "")}},
	{"N01", daemon, "TestHealthCheck/N01_a_program_of_run", []mutant.Edit{edit("cmd/regent/healthcheck.go",
		"	m.Health = checker.Unhealthy\n", "")}},
	{"N01", "cmd/regent/internal/node", "TestHealthChecker/N01_so_many", []mutant.Edit{
		edit("cmd/regent/internal/node/healthcheck.go", "h.inARow >= c.Failures", "h.inARow > c.Failures")}},
	{"N01", "cmd/regent/internal/node", "TestHealthChecker/N01_failures_that", []mutant.Edit{
		edit("cmd/regent/internal/node/healthcheck.go", "		h.inARow = 0\n		h.failure = nil\n",
			"		h.failure = nil\n")}},
	{"N01", settings, "TestHealthCheckKeys/N01_a_long_one", []mutant.Edit{
		edit("cmd/regent/internal/config/healthcheck.go", " || h.Timeout > h.Interval", "")}},
	{"N02", library, "TestLatencyRank/N02_the_candidate", []mutant.Edit{edit("internal/core/rank.go",
		"		return latencyPlace(latency)\n", "		return 0\n")}},
	{"N02", library, "TestLatencyRank/N02_with_preemption", []mutant.Edit{edit("internal/core/latency.go",
		"a.place <= leader.place-leader.place/3", "a.place < leader.place")}},
	{"N02", library, "TestLatencyRank/N02_a_latency_that_is_high", []mutant.Edit{
		edit("internal/core/latency.go", "	most := quantile(recent, 98)\n", "	most := usual\n")}},
	{"N02", library, "TestLatencyRank/N02_a_latency_that_flaps_every_10_", []mutant.Edit{
		edit("internal/core/latency.go", "	usual := quantile(recent, 90)\n	most := quantile(recent, 98)\n",
			"	usual := s.Latencies[(s.Heartbeats-1)%latencies]\n	most := usual\n")}},
	{"N02", library, "TestLatencyRank/N02_the_published", []mutant.Edit{edit("internal/core/latency.go",
		"usual > c.latency*5/4", "usual > c.latency")}},
	{"N04", "cmd/regent/internal/api", "TestDurationsAreMilliseconds/N04_GET_v1_metrics", []mutant.Edit{
		edit("cmd/regent/internal/api/figures.go", "`json:\"loopLagMs\"`", "`json:\"loopLag\"`")}},
	{"N04", "cmd/regent/internal/api", "TestDurationsAreMilliseconds/N04_the_numbers", []mutant.Edit{
		edit("cmd/regent/internal/api/elections.go", "millis.Of(l.Duration)", "millis.Of(l.Duration) * 1e6")}},
	{"N04", "cmd/regent/internal/api", "TestDurationsAreMilliseconds/N04_a_poll", []mutant.Edit{
		edit("cmd/regent/internal/poll/json.go", "			s.rule = millisecondsRule\n", "")}},
	{"N03", settings, "TestUpgrade/N03_keys_in_snake_case", []mutant.Edit{edit("cmd/regent/internal/config/yaml.go",
		"		name = camel\n", "")}},
	{"N03", settings, "TestUpgrade/N03_a_poll_has", []mutant.Edit{edit("cmd/regent/internal/config/upgrade.go",
		"			key.Value = camel\n", "")}},
	{"N03", daemon, "TestUpgrade/N03_events_carry", []mutant.Edit{edit("cmd/regent/serve.go",
		"		EventPrefix: s.EventPrefix,\n", "")}},
	{"N05", library, "TestSchedulers/N05_a_queue_runs_on_the_leader_and_its_long", []mutant.Edit{edit("run.go",
		"		go t.serve()\n", "		go func() { <-st.Context().Done(); t.dutyStopped(false) }()\n")}},
	{"N05", daemon, "TestDocumentedCommands/N05_", []mutant.Edit{edit("cmd/regent/internal/runner/runner.go",
		`"REGENT_EPOCH="`, `"REGENT_EPOCHS="`)}},
	{"N06", daemon, "TestDocumentedCommands/N06_the_lock", []mutant.Edit{edit("config.go",
		"	c.LeaseDuration = 30 * time.Second\n	c.OwnLease = true\n",
		"	c.LeaseDuration = 30 * time.Second\n")}},
	{"N06", daemon, "TestDocumentedCommands/N06_a_load_balancer", []mutant.Edit{
		edit("cmd/regent/internal/api/health.go", "		if h.Role == want {\n", "		if h.Role != \"\" {\n")}},
}
