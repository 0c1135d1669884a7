package sim

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
)

// recorder writes the history down. It knows nothing of the code under test but what crosses its store, its duties and its words.
type recorder struct {
	start time.Time
	fresh atomic.Int64 // when a swap of a register that was never written was last sent

	mu     sync.Mutex
	events []Event
	whose  map[string]int // which process has first sent an incarnation as its own
	known  map[knownKey]bool
	sent   map[sentKey]evidence
}

type knownKey struct {
	who   string
	nonce uint64
}

type sentKey struct {
	proc  int
	name  string
	nonce uint64
}

// evidence is what a process knew of a record when it sent a swap that replaces it.
type evidence struct{ watched, confirmed time.Duration }

func newRecorder(start time.Time) *recorder {
	return &recorder{start: start, events: make([]Event, 0, 1024), whose: map[string]int{}, known: map[knownKey]bool{}, sent: map[sentKey]evidence{}}
}

// add notes an event of a process, or of nobody if p is nil. What a dead process does is no event.
func (r *recorder) add(p *process, e Event) {
	if p == nil || !p.dead.Load() {
		r.note(p, e)
	}
}

// note is add for what outlives its process.
func (r *recorder) note(p *process, e Event) {
	e.At, e.Proc = time.Since(r.start), -1
	if p != nil {
		e.Local, e.Proc = p.clock.local(e.At), p.index
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
}

// sighting is a revision of a record as a process has seen it.
type sighting struct {
	lease regent.Lease
	first time.Duration // when it was first received, edits aside
	began time.Duration // when the last read that showed it was sent
}

// saw takes in an answer to a request that was sent at began.
func (p *process) saw(l regent.Lease, began time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knows[l.Name] = max(p.knows[l.Name], l.Epoch)
	p.sight(l, began)
}

// heard takes in a record that a hint brings, which the process may never look at. Only a vacant one may be claimed on.
func (p *process) heard(l regent.Lease) {
	if l.Name == "" || !l.Vacant() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight(l, 0)
}

// sight keeps what a process has seen of a register. The mutex is held.
func (p *process) sight(l regent.Lease, began time.Duration) {
	const kept = 6 // answers may come out of order
	list := p.seen[l.Name]
	for i := range list {
		if list[i].lease.Rev == l.Rev {
			list[i].began = max(list[i].began, began)
			return
		}
	}
	if len(list) == kept {
		list = list[:copy(list, list[1:])]
	}
	first := p.clock.Now()
	for _, s := range list { // an edit keeps the nonce, and gives no time
		if s.lease.Nonce == l.Nonce && s.lease.Holder == l.Holder && s.lease.Edits < l.Edits {
			first = min(first, s.first)
		}
	}
	p.seen[l.Name] = append(list, sighting{l, first, began})
}

func (p *process) sightingOf(name, rev string) (sighting, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen[name] {
		if s.lease.Rev == rev {
			return s, true
		}
	}
	return sighting{}, rev == ""
}

// sending notes a swap that a process is about to send, and says what it is for.
func (r *recorder) sending(p *process, l regent.Lease) Op {
	if l.Rev == "" {
		r.fresh.Store(int64(time.Since(r.start)))
	}
	old, ok := p.sightingOf(l.Name, l.Rev)
	op := Edit
	switch who := l.Holder.Incarnation; {
	case !ok:
	case l.Vacant() && old.lease.Vacant():
	case l.Vacant() && r.owner(old.lease.Holder.Incarnation, -1) == p.index:
		op = Release
	case l.Vacant():
		op = Revoke
	case l.Holder != old.lease.Holder:
		op = Claim
		if isMember(l.Name) {
			op = Join
		}
		r.owner(who, p.index)
	case l.Nonce != old.lease.Nonce:
		op = Beat
	case !bytes.Equal(l.Data, old.lease.Data):
		op = Save
	}
	if op != Edit && op != Save {
		now := p.clock.Now()
		r.mu.Lock()
		r.sent[sentKey{p.index, l.Name, l.Nonce}] = evidence{now - old.first, old.began - old.first}
		r.mu.Unlock()
	}
	r.add(p, Event{Kind: Sent, Op: op, Name: l.Name, Epoch: l.Epoch, Nonce: l.Nonce, Who: l.Holder.Incarnation, Via: l.Via})
	return op
}

// owner returns the process that an incarnation belongs to, and gives it to one if it has none.
func (r *recorder) owner(who string, to int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.whose[who]
	if !ok {
		p = to
		if to >= 0 {
			r.whose[who] = to
		}
	}
	return p
}

// answered notes what an answer tells a process: the record, and that an attempt of its own was applied.
func (r *recorder) answered(p *process, l regent.Lease, began time.Duration) {
	p.saw(l, began)
	who := l.Holder.Incarnation
	if who == "" || r.owner(who, -1) != p.index {
		return
	}
	key := knownKey{who, l.Nonce}
	r.mu.Lock()
	news := !r.known[key]
	r.known[key] = true
	r.mu.Unlock()
	if news {
		r.add(p, Event{Kind: Known, Name: l.Name, Epoch: l.Epoch, Nonce: l.Nonce, Who: who, Via: l.Via})
	}
}

// applied is the store's hook. It is called under the store's lock.
func (r *recorder) applied(p *process, old, l regent.Lease) {
	e := Event{Kind: Applied, Op: Edit, Name: l.Name, Epoch: l.Epoch, Nonce: l.Nonce, Who: l.Holder.Incarnation, Via: l.Via,
		Old: old.Holder.Incarnation, OldVia: old.Via, OldEpoch: old.Epoch, OldLease: old.Duration, SameID: p != nil && old.Holder.ID == p.id}
	mine := p != nil && r.owner(e.Old, -1) == p.index
	switch {
	case l.Vacant() && old.Vacant():
	case l.Vacant() && mine:
		e.Op = Release
	case l.Vacant():
		e.Op = Revoke
	case l.Holder != old.Holder && isMember(l.Name):
		e.Op = Join
	case l.Holder != old.Holder:
		e.Op = Claim
	case l.Nonce != old.Nonce:
		e.Op = Beat
	case !bytes.Equal(l.Data, old.Data):
		e.Op = Save
	}
	e.Lost = !isMember(l.Name) && l.Holder != old.Holder && (l.Paused != old.Paused || !bytes.Equal(l.Data, old.Data))
	e.At, e.Proc = time.Since(r.start), -1
	if p != nil {
		e.Local, e.Proc = p.clock.local(e.At), p.index
	}
	r.mu.Lock()
	if p != nil {
		ev := r.sent[sentKey{p.index, l.Name, l.Nonce}]
		e.Watched, e.Confirmed = ev.watched, ev.confirmed
	}
	r.events = append(r.events, e)
	r.mu.Unlock()
}

func isMember(name string) bool { return strings.HasPrefix(name, regent.MemberRegister("")) }
