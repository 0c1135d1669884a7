package model

import "math/bits"

// worker takes tasks that carry epochs. A fence is no more than the highest epoch accepted so far.
type worker struct {
	high  uint8
	tasks [2]uint8 // epochs of the tasks on their way; 0 is none
}

// dispatch puts a task on its way, if there is room for one.
func (w *worker) dispatch(epoch uint8, room int) bool {
	for i := range room {
		if w.tasks[i] == 0 {
			w.tasks[i] = epoch
			return true
		}
	}

	return false
}

// deliver lets task i arrive. Tasks may overtake one another.
func (w *worker) deliver(i int, fenced bool) (Property, Witness) {
	epoch := w.tasks[i]
	w.tasks[i] = 0
	switch {
	case epoch >= w.high:
		w.high = epoch
		return 0, 0
	case fenced:
		return 0, RefusedStale
	default:
		return FenceHolds, 0
	}
}

// sort puts the tasks into an order, since they have none.
func (w *worker) sort() {
	if w.tasks[0] < w.tasks[1] {
		w.tasks[0], w.tasks[1] = w.tasks[1], w.tasks[0]
	}
}

// ranks renumbers epochs. Protocol and worker only ever compare them and take the next one, so the rank of an epoch
// among those that occur in a state says all there is to know. Zero stays zero.
type ranks uint64

func (r ranks) of(epoch uint8) uint8 {
	below := uint64(r|1) & (1<<epoch - 1)
	return uint8(bits.OnesCount64(below))
}
