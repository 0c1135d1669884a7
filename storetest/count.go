package storetest

import (
	"github.com/regentd/regent/driver"
)

var countChecks = []check{
	{"every_call_is_counted_as_a_request", func(r *rig) {
		s := r.client()
		counter, ok := s.(driver.Counter)
		if !ok {
			r.Skip("the store is no Counter")
		}
		total := func() (n uint64) {
			for _, count := range counter.Requests() {
				n += count
			}
			return n
		}
		counted := func(call string, f func()) {
			r.Helper()
			before := total()
			f()
			if after := total(); after <= before {
				r.Errorf("%s left the number of requests at %d, from %d", call, after, before)
			}
		}

		var l driver.Record
		counted("Swap", func() { l = r.swap(s, taken("seat", 1)) })
		counted("Get", func() { r.get(s, "seat") })
		counted("List", func() { r.list(s, "") })
		counted("a Swap that is refused", func() { r.wantConflict(s, driver.Record{Name: "seat", Rev: "none"}) })
		if b, ok := s.(driver.Batcher); ok {
			counted("SwapAll", func() { l = b.SwapAll(r.ctx, []driver.Record{renewed(l)})[0].Record })
		}
		if f, ok := s.(driver.Refresher); ok {
			counted("Refresh", func() { f.Refresh(r.ctx, []driver.Record{l}) })
		}
		if m, ok := s.(driver.Remover); ok {
			l = r.swap(s, released(l))
			counted("Remove", func() {
				if err := m.Remove(r.ctx, l); err != nil {
					r.Errorf("Remove: %v", err)
				}
			})
		}

		before := total()
		clear(counter.Requests())
		if after := total(); after != before {
			r.Errorf("Requests shares its map: %d requests after it was cleared, %d before", after, before)
		}
	}},
}
