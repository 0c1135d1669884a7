package api

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// faceCollector tells how many clients the node has, and how many it had to turn away.
type faceCollector struct {
	limits *Limits
	hub    *node.Hub
}

// Describe implements [prometheus.Collector].
func (c *faceCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements [prometheus.Collector].
func (c *faceCollector) Collect(ch chan<- prometheus.Metric) {
	tell := func(name, help string, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("regent_"+name, help, nil, nil), kind, v)
	}
	c.limits.mu.Lock()
	open := len(c.limits.open)
	c.limits.mu.Unlock()
	tell("connections", "Connections of clients.", prometheus.GaugeValue, float64(open))
	tell("connections_evicted_total", "Connections closed to make room for others.", prometheus.CounterValue, float64(c.limits.evicted.Load()))
	tell("event_streams", "Event streams.", prometheus.GaugeValue, float64(c.limits.streams.Load()))
	tell("event_streams_refused_total", "Event streams refused for want of room.", prometheus.CounterValue, float64(c.limits.refused.Load()))
	tell("event_subscribers_cut_off_total", "Event subscribers cut off, being too slow.", prometheus.CounterValue, float64(c.hub.CutOff()))
}
