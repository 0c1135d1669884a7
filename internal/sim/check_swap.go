package sim

import ()

// swapSent checks what a process sends against the deadline of what it sends it under (I6).
func (c *checker) swapSent(e *Event) {
	k := keeper{e.Name, e.Who}
	switch e.Op {
	case Join, Claim:
		c.whose[e.Who] = e.Proc
	case Release:
		if c.runs(e.Proc, e.Name, e.Epoch) {
			c.fail(R7, e.Name, "p%d releases %s in epoch %d while its duty still runs", e.Proc, e.Name, e.Epoch)
		}
	}

	if e.Via != "" {
		k.name = e.Via
	}

	owner, known := c.whose[e.Who]
	mine := known && owner == e.Proc
	// An edit is made in anybody's name; the first heartbeat of a life has no deadline yet. A saver
	// that stalls may send late.
	save := e.Op == Save && !c.h.Procs[e.Proc].Stalls
	if late := e.Op == Beat || save || e.Op == Claim && e.Via != ""; late && mine {
		if d, ok := c.deadline[k]; ok && e.Local >= d {
			c.fail(I6, e.Name, "p%d sends a %s of %s %v after its deadline", e.Proc, e.Op, e.Name, e.Local-d)
		}
	}

	if via := e.Via == ""; via && mine && (e.Op == Join || e.Op == Beat || e.Op == Claim) {
		c.sent[attempt{e.Name, e.Who, e.Nonce}] = e.Local
	}
}

// applied checks what the store has taken.
func (c *checker) applied(e *Event) {
	defer func() { c.regs[e.Name] = e.Who }()
	if e.Epoch < e.OldEpoch {
		invariant := I4
		if e.Op == Release || e.Op == Revoke {
			invariant = I8
		}

		c.fail(invariant, e.Name, "p%d makes the epoch of %s fall from %d to %d", e.Proc, e.Name, e.OldEpoch, e.Epoch)
	}

	if e.Lost {
		c.fail(I8, e.Name, "p%d loses the checkpoint or the pause of %s with a %s", e.Proc, e.Name, e.Op)
	}

	if !isMember(e.Name) {
		c.written(e)
	}

	c.asked(e)
	switch {
	case e.Op == Claim:
		c.claim(e)
	case e.Op == Join && e.Epoch <= e.OldEpoch:
		c.fail(I4, e.Name, "p%d joins as incarnation %d after %d", e.Proc, e.Epoch, e.OldEpoch)
	case e.Op == Reap:
		if owner := c.whose[e.Old]; owner != e.Proc || !c.dead[owner] {
			c.fail(I10, e.Name, "the reaper of p%d releases %s, which p%d holds and which lives", e.Proc, e.Name, owner)
		}
	case e.Op == Join && e.Old != "":
		if c.whose[e.Old] != e.Proc {
			c.fail(R6, "", "p%d joins over %s, an incarnation of p%d", e.Proc, short(e.Old), c.whose[e.Old])
		}
	case e.Op == Beat && !isMember(e.Name) && e.Epoch != e.OldEpoch:
		c.fail(I1, e.Name, "p%d renews %s from epoch %d to %d within one term", e.Proc, e.Name, e.OldEpoch, e.Epoch)
	case e.Op == Revoke && !isMember(e.Name):
		c.fail(I8, e.Name, "p%d vacates %s, which p%d holds in epoch %d", e.Proc, e.Name, c.whose[e.Old], e.OldEpoch)
	case e.Op == Revoke:
		c.taken(e)
	}
}

// taken checks that a record is taken from its holder only after it was seen to run out, or was
// proved dead.
func (c *checker) taken(e *Event) {
	if e.Proc < 0 || c.h.Procs[e.Proc].Witness && c.dead[c.whose[e.Old]] {
		return
	}

	if e.Watched < e.OldLease {
		invariant := R2
		if e.Op == Revoke && e.Watched <= 0 {
			invariant = I8
		}

		c.fail(invariant, e.Name, "p%d takes %s from p%d after watching it for %v of %v", e.Proc, e.Name,
			c.whose[e.Old], e.Watched, e.OldLease)
	}

	wait := e.OldLease
	if !e.SameID {
		wait += c.h.Procs[e.Proc].Delay
	}

	if e.Confirmed < wait {
		c.fail(R10, e.Name, "p%d takes %s from p%d by a read from %v after it first saw it, and not %v", e.Proc,
			e.Name, c.whose[e.Old], e.Confirmed, wait)
	}
}

func (c *checker) claim(e *Event) {
	t := term{e.Name, e.Epoch, e.Who}
	if first, ok := c.first[electionEpoch{e.Name, e.Epoch}]; ok {
		c.fail(I1, e.Name, "epoch %d of %s is claimed by p%d and again by p%d", e.Epoch, e.Name, first, e.Proc)
	} else {
		c.first[electionEpoch{e.Name, e.Epoch}] = e.Proc
	}

	if e.Epoch <= c.newest[e.Name] && c.h.Class != Lossy {
		c.fail(I4, e.Name, "p%d claims %s in epoch %d after %d", e.Proc, e.Name, e.Epoch, c.newest[e.Name])
	}

	if owner, ok := c.whose[e.Who]; !ok || owner != e.Proc {
		c.fail(R6, e.Name, "p%d claims %s for another", e.Proc, e.Name)
	}

	switch {
	case e.Old == "":
	case e.OldVia == "":
		c.taken(e)
	case c.regs[e.OldVia] == e.Old:
		c.fail(R6, e.Name, "p%d claims %s from %s, which still lives", e.Proc, e.Name, short(e.Old))
	}

	if e.Fell && e.Waited < c.h.Procs[e.Proc].Lease {
		c.fail(R5, e.Name, "p%d claims %s in epoch %d on a store that shows less than it has seen, %v after it noticed",
			e.Proc, e.Name, e.Epoch, e.Waited)
	}

	c.claims[t] = claimed{e.Proc, e.Via, e.Nonce, e.Data}
	c.newest[e.Name] = max(c.newest[e.Name], e.Epoch)
}

func (c *checker) grant(e *Event) {
	t := term{e.Name, e.Epoch, e.Who}
	cl, ok := c.claims[t]
	if !ok || cl.proc != e.Proc {
		c.fail(I5, e.Name, "p%d begins term %d of %s, which it was not given", e.Proc, e.Epoch, e.Name)
	}

	if e.Valid { // it has a duty
		for d := range c.running {
			if d.proc == e.Proc && d.election == e.Name {
				c.fail(R7, e.Name, "p%d begins its duty of term %d of %s while that of term %d still runs", e.Proc,
					e.Epoch,
					e.Name, d.epoch)
			}
		}

		c.running[duty{e.Proc, t}] = true
		if ok && e.Data != cl.data {
			c.fail(I9, e.Name, "p%d begins term %d of %s with the checkpoint %q, and its claim had %q", e.Proc, e.Epoch,
				e.Name, e.Data, cl.data)
		}
	}

	if c.h.Class == Beyond {
		return // there only the store's order counts
	}

	to := grantee{e.Name, -1}
	if c.h.Class == Lossy {
		to.proc = e.Proc // whoever has not seen a claim cannot go beyond it
	}

	if e.Epoch <= c.granted[to] {
		c.fail(I4, e.Name, "term %d of %s begins after term %d", e.Epoch, e.Name, c.granted[to])
	}

	c.granted[to] = max(c.granted[to], e.Epoch)
}
