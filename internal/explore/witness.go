package explore

import (
	"github.com/regentd/regent/internal/core"

	"github.com/regentd/regent/driver"
)

// witness returns what the step from a world to the next has shown.
func witness(w, t *world, a action) Witness {
	seen := t.shows
	if a.verb == apply && w.msgs[a.i].verb == core.Swap {
		seen |= written(w, t, &w.msgs[a.i])
	}

	return seen
}

// written returns what a write has shown.
func written(w, t *world, m *message) Witness {
	i := w.store.index(m.record.Name)
	before := &w.store.records[i]
	after := &t.store.records[i]
	if before.Rev == after.Rev {
		return Conflicted
	}

	var seen Witness
	if m.late {
		seen |= AppliedLate
	}

	if after.Paused && !before.Paused {
		seen |= PausedIt
	}

	if string(before.Data) != string(after.Data) {
		seen |= Saved
	}

	if i >= w.setup.Elections {
		return seen | beaten(w, m, before, after)
	}

	switch {
	case after.Epoch > before.Epoch && before.Vacant():
		seen |= TookOverReleased
		if before.Next == after.Holder.ID {
			seen |= HandedOver
		}
	case after.Epoch > before.Epoch:
		seen |= TookOverExpired
	case after.Vacant() && !before.Vacant() && abandoned(after):
		seen |= GaveBack
	}

	return seen
}

func abandoned(r *driver.Record) bool {
	n := len(r.Past)
	return n > 0 && r.Past[n-1].Reason == core.ReasonAbandoned
}

// beaten returns what a write to a member register has shown.
func beaten(w *world, m *message, before, after *driver.Record) Witness {
	switch {
	case after.Name == driver.FloorRegister:
	case after.Vacant() && before.Holder.ID != w.setup.IDs[m.proc] && w.retiring(after.Name):
		return Revoked | RevokedSilent
	case after.Vacant() && before.Holder.ID != w.setup.IDs[m.proc]:
		return Revoked
	case after.Vacant():
		return Left
	case after.Holder != before.Holder:
		for k := range w.setup.Elections {
			if r := &w.store.records[k]; !r.Vacant() && r.Via == after.Name {
				return Rejoined
			}
		}
	}

	return 0
}
