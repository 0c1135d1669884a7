package api

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// metrics serves what the node counts, read when it is asked for: nothing is kept twice.
func (s *server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(s.Node, s.Version), &faceCollector{s.Limits, s.Node.Hub}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

type collector struct {
	node    *node.Node
	version string

	leader, epoch, remaining, heartbeat, failures, began, ended, leaderless, contention, drift, lost, build,
	tasks, members, cluster, slots, polls, latency, duties, overdue, jumps, behind, regressed, reachable, writable, requests *prometheus.Desc
}

func newCollector(n *node.Node, version string) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("regent_"+name, help, labels, nil)
	}
	return &collector{
		node: n, version: version,
		leader:     desc("leader", "1 while this node leads, by its own deadline.", "election"),
		epoch:      desc("epoch", "The highest epoch that this node knows of.", "election"),
		remaining:  desc("lease_remaining_seconds", "How long this node may still lead without another heartbeat; 0 if it does not.", "election"),
		heartbeat:  desc("heartbeat_duration_seconds", "How long heartbeats took; quantiles over the last 100."),
		failures:   desc("renew_failures_total", "Heartbeats that failed."),
		began:      desc("terms_total", "Terms that this node has begun."),
		ended:      desc("transitions_total", "Terms of this node that have ended, by reason.", "reason"),
		leaderless: desc("leaderless_seconds_total", "How long this node saw the seat vacant, or had not seen it.", "election"),
		contention: desc("contention_events_total", "Heartbeats that took too long."),
		drift:      desc("epoch_drift_events_total", "Work refused for its old epoch."),
		lost:       desc("lost_events_total", "Events that an observer was too slow for."),
		build:      desc("build_info", "What this is.", "version", "go"),
		tasks:      desc("tasks_total", "Tasks that came to this worker: how they ended, or why they were not taken.", "outcome"),
		members:    desc("members", "Members by status, as the leader sees them; on the leader alone.", "status"),
		cluster:    desc("cluster_status", "1 for the status of the cluster, as the leader sees it; on the leader alone.", "status"),
		slots:      desc("polls_total", "Slots of polls that this node has settled as their leader, by outcome.", "outcome"),
		polls:      desc("polls", "Polls by the state of their targets; on the leader alone.", "state"),
		latency:    desc("poll_duration_seconds", "How long checks took, by kind.", "kind"),
		overdue:    desc("polls_overdue", "Polls that have not run for longer than they can take; on the leader alone."),
		jumps:      desc("poll_clock_jumps_total", "How often this node, as leader, found that clocks disagree about slots."),
		behind:     desc("store_behind", "1 while the store shows a lower epoch than this node knows of: it has lost writes.", "election"),
		regressed:  desc("store_regressions_total", "How often this node found that the store had lost writes.", "election"),
		reachable:  desc("store_reachable", "1 while the store answers this node's reads."),
		writable:   desc("store_writable", "1 while the store takes this node's writes, as far as any were sent."),
		requests:   desc("store_requests_total", "Requests to the store, by kind, those that failed included.", "op"),
		duties:     desc("duty_failures_total", "Duties that failed, and were run again.", "duty"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leader, c.epoch, c.remaining, c.heartbeat, c.failures, c.began, c.ended, c.leaderless, c.contention, c.drift, c.lost, c.build,
		c.tasks, c.members, c.cluster, c.slots, c.polls, c.latency, c.duties, c.overdue, c.jumps, c.behind, c.regressed, c.reachable, c.writable, c.requests} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	h, s, counts, election := c.node.Health(), c.node.Member.Stats(), c.node.Counts(), c.node.Election()
	gauge(c.leader, truth(h.Role == node.Leader), election)
	gauge(c.behind, truth(h.Store.Behind), election)
	counter(c.regressed, float64(counts.Regressed), election)
	for op, n := range counts.Requests {
		counter(c.requests, float64(n), op)
	}
	gauge(c.reachable, truth(h.Store.Reachable))
	gauge(c.writable, truth(h.Store.Writable))
	gauge(c.epoch, float64(h.Epoch), election)
	gauge(c.remaining, float64(h.LeaseRemainingMs)/1000, election)
	ch <- prometheus.MustNewConstSummary(c.heartbeat, s.Heartbeats, s.HeartbeatTime.Seconds(), map[float64]float64{
		0.5: s.HeartbeatLatencyP50.Seconds(), 0.95: s.HeartbeatLatencyP95.Seconds(), 0.99: s.HeartbeatLatencyP99.Seconds()})
	counter(c.failures, float64(s.RenewFailures))
	counter(c.began, float64(s.Transitions))
	for reason, n := range counts.Ended {
		counter(c.ended, float64(n), reason)
	}
	counter(c.leaderless, counts.Leaderless.Seconds(), election)
	counter(c.contention, float64(s.ContentionEvents))
	counter(c.drift, float64(c.node.Drifts()))
	counter(c.lost, float64(s.LostEvents))
	gauge(c.build, 1, c.version, runtime.Version())
	c.coordination(ch, gauge, counter)
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// coordination collects what the node does as a worker, and as a leader.
func (c *collector) coordination(ch chan<- prometheus.Metric, gauge, counter func(*prometheus.Desc, float64, ...string)) {
	if c.node.Worker != nil {
		w := c.node.Worker.Stats()
		for outcome, n := range w.Outcomes {
			counter(c.tasks, float64(n), string(outcome))
		}
		for why, n := range map[string]uint64{"duplicate": w.Duplicates, "stale": w.Stale, "busy": w.Busy, "unknown kind": w.Unknown} {
			counter(c.tasks, float64(n), why)
		}
	}
	p := c.node.Polls.Stats()
	for outcome, n := range p.Slots {
		counter(c.slots, float64(n), outcome)
	}
	counter(c.jumps, float64(p.Jumps))
	for kind, h := range p.Latency {
		buckets, count := h.Buckets()
		ch <- prometheus.MustNewConstHistogram(c.latency, count, h.Sum.Seconds(), buckets, kind)
	}
	for _, d := range c.node.Member.Duties() {
		counter(c.duties, float64(d.Failures), d.Name)
	}
	seen := c.node.Cluster.Snapshot()
	if _, leads := c.node.Member.Leads(c.node.Election()); !leads || !seen.Known {
		return
	}
	gauge(c.overdue, float64(p.Overdue))
	for state, n := range p.Polls {
		gauge(c.polls, float64(n), string(state))
	}
	n := seen.Counts
	for status, count := range map[health.Status]int{health.Healthy: n.Healthy, health.Degraded: n.Degraded, health.Partitioned: n.Partitioned,
		health.Unreachable: n.Unreachable, health.Gone: n.Gone, health.Unknown: n.Unknown} {
		gauge(c.members, float64(count), string(status))
	}
	for _, status := range []health.Status{health.Healthy, health.Degraded, health.Critical} {
		gauge(c.cluster, truth(seen.Status == status), string(status))
	}
}
