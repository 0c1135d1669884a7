package sim

import (
	"sync"
	"time"

	"github.com/regentd/regent"
)

// workers is how many receivers of work there are. Each has a fence for each election.
const workers = 2

type workplace struct {
	mu     sync.Mutex // so that the order of the history is that of the fence
	fences map[string]*regent.Fence
	newest map[string]uint64 // the highest epoch that was accepted, by election
}

// send brings work to a worker, late: it may arrive when its sender leads no more.
func (s *simulation) send(p *process, worker int, election string, token regent.Token, delay time.Duration) {
	if p.dead.Load() {
		return
	}

	time.AfterFunc(delay, func() {
		w := &s.workers[worker]
		w.mu.Lock()
		defer w.mu.Unlock()
		f := w.fences[election]
		if f == nil {
			if w.fences == nil {
				w.fences = map[string]*regent.Fence{}
				w.newest = map[string]uint64{}
			}

			f = &regent.Fence{}
			w.fences[election] = f
		}

		kind := Accepted
		if f.Admit(token) != nil {
			kind = Refused
			if token.Epoch == w.newest[election] {
				s.reach(RefusedTwin)
			}
		} else {
			w.newest[election] = max(w.newest[election], token.Epoch)
		}

		s.rec.note(p, Event{Kind: kind, Name: election, Epoch: token.Epoch, Who: token.Term, Worker: worker})
	})
}
