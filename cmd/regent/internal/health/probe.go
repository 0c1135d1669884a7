package health

import (
	"context"
	"sync"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/plain"
)

// Report is the answer of a member to a probe.
type Report struct {
	Role     string
	Version  string
	Election string // of Role and Epoch; empty for the election of this node
	Epoch    uint64 // the newest that the member knows; 0 if unknown
	Healthy  bool
	Problems []string // in the words of the member

	// The latency of the member's own heartbeats; 0 if not known.
	HeartbeatP50Ms float64
	HeartbeatP99Ms float64
}

// roleLeader is the role of a member that leads.
const roleLeader = "leader"

// probeAll probes members, a few at a time, and returns when all have answered or timed out.
func (t *term) probeAll(ctx context.Context, members []*member) map[*member]answer {
	answers := make([]answer, len(members))
	var wg sync.WaitGroup
	free := make(chan struct{}, t.opts.Parallel)
	for i, m := range members {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			answers[i] = t.probe(ctx, m)
		})
	}
	wg.Wait()

	all := make(map[*member]answer, len(members))
	for i, m := range members {
		all[m] = answers[i]
	}
	return all
}

// probe probes one member.
func (t *term) probe(ctx context.Context, m *member) answer {
	ctx, cancel := context.WithTimeout(ctx, t.opts.ProbeTimeout)
	defer cancel()

	sent := time.Now()
	report, err := t.opts.Probe(ctx, m.view)
	now := time.Now()
	m.probed(err, now)

	return answer{asked: true, report: report, err: plain.Error(err), latency: now.Sub(sent)}
}
