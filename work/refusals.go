package work

import (
	"slices"
	"time"

	"github.com/regentd/regent"
)

// keptRefusals is how many refusals a worker remembers.
const keptRefusals = 10

// Refusal is work of a former leader that a worker has refused because it knew a newer epoch.
type Refusal struct {
	At     time.Time `json:"at"`
	Leader string    `json:"leader"` // who sent it, by its own words
	Epoch  uint64    `json:"epoch"`  // of the work
	Newest uint64    `json:"newest"` // that the worker had seen
	Tasks  int       `json:"tasks"`  // how many were refused; 0 for a query for results
}

// Refusals returns the last refusals of work of former leaders, the newest first.
func (w *Worker) Refusals() []Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()

	all := slices.Clone(w.refusals)
	slices.Reverse(all)

	return all
}

// noteRefusal remembers a refusal.
func (w *Worker) noteRefusal(leader string, stale *regent.StaleError, tasks int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if len(w.refusals) == keptRefusals {
		w.refusals = slices.Delete(w.refusals, 0, 1)
	}

	w.refusals = append(w.refusals, Refusal{
		At: time.Now().Round(0), Leader: leader, Epoch: stale.Epoch, Newest: stale.Newest, Tasks: tasks,
	})
}
