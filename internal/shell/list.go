package shell

import (
	"context"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// named finds elections that name heartbeat registers, by one list for all of them. One that cannot be read may name
// any.
func (r *requests) named(j *job) []driver.Outcome {
	all, _, err := r.list(j, "", false)
	if err != nil {
		return failed(j, err)
	}

	by := map[string]driver.Record{}
	for _, l := range all {
		if !l.Vacant() && l.Via != "" {
			by[l.Via] = driver.Record{Name: l.Name, Via: l.Via, Holder: l.Holder}
		}
	}

	outs := make([]driver.Outcome, len(j.sends))
	for i, send := range j.sends {
		l, ok := by[send.Record.Name]
		outs[i].Record = l
		if !ok {
			outs[i].Err = driver.ErrNotFound
		}
	}

	return outs
}

// list reads all registers below a prefix, or those up to the one that is sought. Those that cannot be read are left
// out, or are an error. The store has the timeout of one request for each step.
func (r *requests) list(j *job, prefix string, leaveOut bool) (all []driver.Record, partial bool, err error) {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	limit := time.AfterFunc(j.sends[0].Timeout, cancel)
	defer limit.Stop()

	before := j.sends[0].Seek.Before()
	records := driver.ListBefore(ctx, r.store, prefix, before)
	if j.verb == core.Skim {
		records = driver.Skim(ctx, r.store, prefix, driver.SkimAge(int(r.members.Load())))
	}

	for record, err := range records {
		limit.Reset(j.sends[0].Timeout)
		switch {
		case before != "" && record.Name >= before: // nobody asked for it
		case err == nil:
			all = append(all, record)
			if seek := j.sends[0].Seek; seek != nil && seek.Found(&record) {
				return all, true, nil
			}
		case record.Name == "" || !leaveOut:
			return nil, false, err
		}
	}

	return all, false, nil
}
