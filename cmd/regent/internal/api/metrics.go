package api

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// metrics returns the handler of /metrics. Values are read when they are asked for: nothing is kept twice.
func (s *server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(s.Node, s.Version),
		&clientCollector{s.Limits, s.Node.Hub},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector collects the metrics of a node.
type collector struct {
	node    *node.Node
	version string
	all     []*prometheus.Desc

	leader, epoch, remaining, leaderless, behind, regressed *prometheus.Desc // of the election
	heartbeat, failures, began, ended, contention, drift    *prometheus.Desc // of the member
	reachable, writable, requests, lost, build              *prometheus.Desc // of the node
	healthCheck, checkFailures                              *prometheus.Desc // of its health check
	tasks, workerWritable                                   *prometheus.Desc // of the worker
	members, cluster, duties                                *prometheus.Desc // of the leader
	slots, polls, latency, overdue, jumps                   *prometheus.Desc // of the leader's polls
}

func newCollector(n *node.Node, version string) *collector {
	c := &collector{node: n, version: version}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc("regent_"+name, help, labels, nil)
		c.all = append(c.all, d)
		return d
	}

	c.leader = desc("leader", "1 while this node leads, by its own deadline.", "election")
	c.epoch = desc("epoch", "The highest epoch that this node knows of.", "election")
	c.remaining = desc("lease_remaining_seconds",
		"How long this node may still lead without another heartbeat; 0 if it does not lead.", "election")
	c.leaderless = desc("leaderless_seconds_total", "How long nobody led, as far as this node knew.", "election")
	c.behind = desc("store_behind",
		"1 while the store shows a lower epoch than this node knows of: it has lost writes.", "election")
	c.regressed = desc("store_regressions_total", "How often this node found that the store had lost writes.",
		"election")

	c.heartbeat = desc("heartbeat_duration_seconds", "How long heartbeats took; quantiles over the last 100.")
	c.failures = desc("renew_failures_total", "Heartbeats that failed.")
	c.began = desc("terms_total", "Terms that this node has begun.")
	c.ended = desc("transitions_total", "Terms of this node that have ended, by reason.", "reason")
	c.contention = desc("contention_events_total", "Heartbeats that took too long.")
	c.drift = desc("epoch_drift_events_total", "Work refused for its old epoch.")

	c.reachable = desc("store_reachable", "1 while the store answers the reads of this node.")
	c.writable = desc("store_writable", "1 while the store takes the writes of this node, as far as any were sent.")
	c.requests = desc("store_requests_total", "Requests to the store, by kind, those that failed included.", "op")
	c.lost = desc("lost_events_total", "Events that an observer was too slow for.")
	c.build = desc("build_info", "The version of this binary and of Go.", "version", "go")

	c.healthCheck = desc("health_check_ok", "1 while the health check of this node passes; left out if it has none.")
	c.checkFailures = desc("health_check_failures_total", "Health checks of this node that have failed.")

	c.tasks = desc("tasks_total",
		"Tasks that this worker got: how they ended, or why they were not taken.", "outcome")

	c.workerWritable = desc("worker_writable",
		"1 while this worker can write its files in dataDir; at 0 it refuses tasks.")

	c.members = desc("members", "Members by status, as the leader sees them; on the leader alone.", "status")
	c.cluster = desc("cluster_status",
		"1 for the status of the cluster, as the leader sees it; on the leader alone.", "status")
	c.duties = desc("duty_failures_total", "Duties that failed, and were run again.", "duty")

	c.slots = desc("polls_total", "Slots of polls that this node has settled as their leader, by outcome.", "outcome")
	c.polls = desc("polls", "Polls by the state of their targets; on the leader alone.", "state")
	c.latency = desc("poll_duration_seconds", "How long checks took, by kind.", "kind")
	c.overdue = desc("polls_overdue", "Polls that have not run for longer than they can take; on the leader alone.")
	c.jumps = desc("poll_clock_jumps_total", "How often this node, as leader, found that clocks disagree about slots.")

	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.all {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	c.collectElection(out)
	c.collectMember(out, c.node.Member.Stats())
	c.collectHealthCheck(out)
	c.collectWorker(out)
	c.collectPolls(out)
	c.collectCluster(out)
}

func (c *collector) collectHealthCheck(out sink) {
	state, failures := c.node.HealthCheck()
	if state == nil {
		return
	}

	out.gauge(c.healthCheck, truth(state.OK))
	out.counter(c.checkFailures, float64(failures))
}

// sink receives metrics.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *collector) collectElection(out sink) {
	h := c.node.Health()
	counts := c.node.Counts()
	election := c.node.Election()

	out.gauge(c.leader, truth(h.Role == node.Leader), election)
	out.gauge(c.epoch, float64(h.Epoch), election)
	out.gauge(c.remaining, float64(h.LeaseRemainingMs)/1000, election)
	out.counter(c.leaderless, counts.Leaderless.Seconds(), election)
	out.gauge(c.behind, truth(h.Store.Behind), election)
	out.counter(c.regressed, float64(counts.Regressed), election)
	out.gauge(c.reachable, truth(h.Store.Reachable))
	out.gauge(c.writable, truth(h.Store.Writable))

	for op, n := range counts.Requests {
		out.counter(c.requests, float64(n), op)
	}
	for reason, n := range counts.Ended {
		out.counter(c.ended, float64(n), reason)
	}
}

func (c *collector) collectMember(out sink, s regent.Stats) {
	quantiles := map[float64]float64{
		0.5:  s.HeartbeatLatencyP50.Seconds(),
		0.95: s.HeartbeatLatencyP95.Seconds(),
		0.99: s.HeartbeatLatencyP99.Seconds(),
	}
	out <- prometheus.MustNewConstSummary(c.heartbeat, s.Heartbeats, s.HeartbeatTime.Seconds(), quantiles)

	out.counter(c.failures, float64(s.RenewFailures))
	out.counter(c.began, float64(s.Transitions))
	out.counter(c.contention, float64(s.ContentionEvents))
	out.counter(c.drift, float64(c.node.Drifts()))
	out.counter(c.lost, float64(s.LostEvents))
	out.gauge(c.build, 1, c.version, runtime.Version())

	for _, d := range c.node.Member.Duties() {
		out.counter(c.duties, float64(d.Failures), d.Name)
	}
}

func (c *collector) collectWorker(out sink) {
	if c.node.Worker == nil {
		return
	}

	out.gauge(c.workerWritable, truth(c.node.Worker.Unwritable() == nil))

	w := c.node.Worker.Stats()
	for outcome, n := range w.Outcomes {
		out.counter(c.tasks, float64(n), string(outcome))
	}

	out.counter(c.tasks, float64(w.Duplicates), "duplicate")
	out.counter(c.tasks, float64(w.Stale), "stale")
	out.counter(c.tasks, float64(w.Busy), "busy")
	out.counter(c.tasks, float64(w.Unknown), "unknown kind")
}

func (c *collector) collectPolls(out sink) {
	p := c.node.Polls.Stats()
	for outcome, n := range p.Slots {
		out.counter(c.slots, float64(n), outcome)
	}

	for kind, h := range p.Latency {
		buckets, count := h.Buckets()
		out <- prometheus.MustNewConstHistogram(c.latency, count, h.Sum.Seconds(), buckets, kind)
	}

	out.counter(c.jumps, float64(p.Jumps))
}

// collectCluster collects what only the leader knows, once it knows it.
func (c *collector) collectCluster(out sink) {
	seen := c.node.Cluster.Snapshot()
	if _, leads := c.node.Member.Leads(c.node.Election()); !leads || !seen.Known {
		return
	}

	p := c.node.Polls.Stats()
	out.gauge(c.overdue, float64(p.Overdue))

	for state, n := range p.Polls {
		out.gauge(c.polls, float64(n), string(state))
	}

	n := seen.Counts
	byStatus := map[health.Status]int{
		health.Healthy: n.Healthy, health.Degraded: n.Degraded, health.Partitioned: n.Partitioned,
		health.Unreachable: n.Unreachable, health.Gone: n.Gone, health.Unknown: n.Unknown,
	}
	for status, count := range byStatus {
		out.gauge(c.members, float64(count), string(status))
	}

	for _, status := range []health.Status{health.Healthy, health.Degraded, health.Critical} {
		out.gauge(c.cluster, truth(seen.Status == status), string(status))
	}
}

// clientCollector collects how many clients a node has, and how many it had to refuse.
type clientCollector struct {
	limits *Limits
	hub    *node.Hub
}

// Describe implements [prometheus.Collector].
func (c *clientCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements [prometheus.Collector].
func (c *clientCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(name, help string, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("regent_"+name, help, nil, nil), kind, v)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

	send("connections", "Connections of clients.", gauge, float64(c.limits.connections()))
	send("connections_evicted_total", "Connections closed to make room for others.",
		counter, float64(c.limits.evicted.Load()))
	send("event_streams", "Event streams.", gauge, float64(c.limits.streams.Load()))
	send("event_streams_refused_total", "Event streams refused because there were too many.",
		counter, float64(c.limits.refused.Load()))
	send("event_subscribers_cut_off_total", "Event subscribers cut off because they were too slow.",
		counter, float64(c.hub.CutOff()))
}
