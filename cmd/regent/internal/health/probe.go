package health

import (
	"context"
	"sync"
	"time"
)

// Report is what a member says of itself when it is asked.
type Report struct {
	Role     string
	Version  string
	Election string // that Role and Epoch are of; empty for that of whoever asks
	Epoch    uint64 // the newest that it knows; 0 if it does not say
	Healthy  bool
	Problems []string // what is wrong, in its words
}

// roleLeader is the role of a member that leads.
const roleLeader = "leader"

// probeAll asks members how they are, a few at a time, and returns when all have answered or have run out of time.
func (w *watch) probeAll(ctx context.Context, members []*member) map[*member]answer {
	answers := make([]answer, len(members))
	var wg sync.WaitGroup
	slots := make(chan struct{}, w.opts.Parallel)
	for i, m := range members {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			one, cancel := context.WithTimeout(ctx, w.opts.ProbeTimeout)
			defer cancel()
			sent := time.Now()
			r, err := w.opts.Probe(one, m.view)
			answers[i] = answer{asked: true, report: r, err: err, latency: time.Since(sent)}
			m.probed(err, time.Now())
		})
	}
	wg.Wait()
	all := make(map[*member]answer, len(members))
	for i, m := range members {
		all[m] = answers[i]
	}
	return all
}
