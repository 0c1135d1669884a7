package core

import (
	"bytes"
	"slices"

	"github.com/regentd/regent/driver"
)

// This file is the checkpoints of a term, which are a part of its election's record.

// save queues a checkpoint.
func (c *Core) save(in Save) {
	i, ok := c.names[in.Election]
	if !ok || !c.saves(c.elections.all[i], in.Epoch) {
		c.emit(Result{ID: in.ID, Result: NotLeader})
		return
	}

	e := c.elections.all[i]
	e.saves = append(slices.Clip(e.saves), in)
	c.enqueue(e.ref)
}

// saves reports whether a checkpoint may be written under a term.
func (c *Core) saves(e *election, epoch uint64) bool {
	return e.term.state == leading && e.term.epoch == epoch && c.beatOf(e).lives(c.now)
}

// writeSave sends the first checkpoint. Whose record it is counts on the very revision that is swapped. The nonce
// stays: this is no heartbeat, and gives no time.
func (c *Core) writeSave(e *election) {
	s := e.saves[0]
	if !c.saves(e, s.Epoch) || !heldBy(&e.rec, e.term.who, e.term.epoch) { // rule 4
		c.saved(e, NotLeader)
		return
	}
	next := e.rec
	next.Data = s.Data
	next.Edits++
	e.saveRev = e.rec.Rev
	c.swap(&e.entity, saveCall, next)
}

// saved answers the first checkpoint.
func (c *Core) saved(e *election, code ResultCode) {
	c.emit(Result{ID: e.saves[0].ID, Result: code, Epoch: e.rec.Epoch, Err: e.saveErr})
	e.saves = slices.Clone(e.saves[1:])
	e.saving = false
	e.saveErr = nil
	c.enqueue(e.ref)
}

// saveAnswered takes in what became of a checkpoint: whatever is not plainly written is settled by a read.
func (c *Core) saveAnswered(e *election, done call, o Outcome, r *driver.Record) {
	switch {
	case o == Done:
		c.receive(e, r, done)
		if len(e.saves) > 0 {
			c.saved(e, OK)
		}
	case len(e.saves) > 0:
		e.saving = true
		e.clash = o == Conflict
		e.saveErr = done.err
	}
}

// settleSave compares a record that was read with a checkpoint of unknown outcome.
func (c *Core) settleSave(e *election, r *driver.Record) {
	if !e.saving || len(e.saves) == 0 {
		return
	}
	e.saving = false
	switch {
	case bytes.Equal(r.Data, e.saves[0].Data):
		c.saved(e, OK)
	case e.clash && r.Rev != e.saveRev: // somebody else has edited the record: write it again
	default:
		c.saved(e, OutcomeUnknown)
	}
}

// endSaves answers the checkpoints of a term that has ended. One that is under way, or was, may have been written,
// unless the term ends because of the record that was read after it.
func (c *Core) endSaves(e *election) {
	for i, s := range e.saves {
		code := NotLeader
		if i == 0 && (e.saving && !e.settled || e.call.id != 0 && e.call.kind == saveCall) {
			code = OutcomeUnknown
		}
		c.emit(Result{ID: s.ID, Result: code, Epoch: e.term.epoch})
	}
	e.saves = nil
	e.saving = false
}
