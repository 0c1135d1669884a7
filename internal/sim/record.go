package sim

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// recorder writes the history down. It knows nothing of the code under test but what crosses its
// store, its duties and its words.
type recorder struct {
	start time.Time
	fresh atomic.Int64 // when a swap of a register that was never written was last sent

	mu     sync.Mutex
	events []Event
	whose  map[string]int // which process has first sent an incarnation as its own
	known  map[knownKey]bool
	sent   map[sentKey]evidence
	joins  map[string][]join // by register
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
type evidence struct {
	watched, confirmed time.Duration
	fell               bool
	waited             time.Duration
}

func newRecorder(start time.Time) *recorder {
	return &recorder{start: start, events: make([]Event, 0, 1024), whose: map[string]int{},
		known: map[knownKey]bool{}, sent: map[sentKey]evidence{},
		joins: map[string][]join{}}
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
	lease driver.Record
	first time.Duration // when it was first received, edits aside
	began time.Duration // when the last read that showed it was sent

	newest bool          // the newest read has shown it, at some time
	passed time.Duration // when the newest read showed another in its place; 0 if none has
	again  time.Duration // when a read of after that showed it again, and none has shown another since; 0 if none has
}

// height is what a process has seen of a register's epochs.
type height struct {
	highest  uint64
	last     driver.Record // the record as the newest read showed it
	began    time.Duration // when that was sent
	answered time.Duration // and answered
	fell     time.Duration // when it was last seen to fall
	hasFell  bool
	edited   time.Duration // when an edit that somebody made through this process was last answered
	early    time.Duration // when a read that may be older has shown less, since the newest one; 0 if none has
}

// older reports whether a read that was sent at began may show an older state than the newest one: of a heartbeat
// register the read counts that was sent last, and after an edit was answered that somebody made through this
// process; of an election one that was sent after the last answer: of two reads that were under way at once neither
// is known to be the newer one.
func (h *height) older(name string, began time.Duration) bool {
	if isMember(name) {
		return began < h.began || began < h.edited
	}

	return began < max(h.answered, h.edited)
}

// saw takes in an answer to a request that was sent at began.
func (p *process) saw(l driver.Record, began time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knows[l.Name] = max(p.knows[l.Name], l.Epoch)
	p.sight(l, began)
	p.measure(l, began)
}

// edited takes in the answer to an edit of a heartbeat register that was sent at began.
func (p *process) edited(l driver.Record, began time.Duration) {
	p.saw(l, began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heights[l.Name].edited = p.clock.Now()
}

// measure takes in the epoch of a record, which is 0 for a register that is not there. A read that
// was sent before the last one was answered may be older, and tells nothing of what came after. The
// mutex is held.
func (p *process) measure(l driver.Record, began time.Duration) {
	h := p.heights[l.Name]
	if h == nil {
		h = &height{}
		p.heights[l.Name] = h
	}

	switch {
	case h.older(l.Name, began) && !isMember(l.Name) && l.Epoch > h.highest:
		h.highest = l.Epoch // what follows is compared with it
		h.last.Epoch = l.Epoch
		return
	case h.older(l.Name, began):
		if l.Epoch < h.last.Epoch && h.early == 0 {
			h.early = p.clock.Now()
		}

		return
	case isMember(l.Name):
		p.forget(l, began)
	}

	h.highest = max(h.highest, l.Epoch)
	now := p.clock.Now()
	if l.Epoch < h.last.Epoch {
		h.fell = now
		if h.early != 0 {
			h.fell = h.early
		}

		h.hasFell = true
	}

	h.early = 0
	h.last = l
	h.began = began
	h.answered = now
	p.newest(l)
}

// newest notes that the newest read has shown a record. The mutex is held.
func (p *process) newest(l driver.Record) {
	for i, s := range p.seen[l.Name] {
		if s.lease.Rev == l.Rev {
			p.seen[l.Name][i].newest = true
		}
	}
}

// sawNothing takes in that a register is not there.
func (p *process) sawNothing(name string, began time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measure(driver.Record{Name: name}, began)
}

// heard takes in a record that a notification carries, which the process may never read. Only a vacant
// one may be claimed on.
func (p *process) heard(l driver.Record) {
	if l.Name == "" || !l.Vacant() {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight(l, 0)
}

// sight keeps what a process has seen of a register. The mutex is held.
//
// A record has been watched since it was first received, or since the one before it if it only adds
// edits to that: those give its holder no time. One that comes again after another is watched anew:
// the store has gone back. A read that was under way with another begins that, if it was sent after the record had
// been replaced, and if the next read confirms it.
func (p *process) sight(l driver.Record, began time.Duration) {
	const kept = 6 // answers may come out of order
	p.meet(l)
	list := p.seen[l.Name]
	known := slices.IndexFunc(list, func(s sighting) bool { return s.lease.Rev == l.Rev })
	last := ""
	older := false
	if h := p.heights[l.Name]; h != nil {
		last = h.last.Rev
		older = h.older(l.Name, began)
	}

	first := p.clock.Now()
	for i := range list {
		if i == known {
			continue
		}

		list[i].again = 0
		if !older && list[i].passed == 0 {
			list[i].passed = first
		}
	}

	if known >= 0 && (!list[known].newest || last == l.Rev || older) {
		list[known].began = max(list[known].began, began)
		if s := &list[known]; last != l.Rev && s.again == 0 && s.passed != 0 && began >= s.passed {
			s.again = first
		}

		return
	}

	if known >= 0 && list[known].again != 0 {
		first = list[known].again
	}

	for _, s := range list {
		edited := s.lease.Holder == l.Holder && s.lease.Nonce == l.Nonce && s.lease.Edits < l.Edits
		if edited && (known < 0 || s.lease.Rev == last) {
			first = min(first, s.first)
		}
	}

	switch {
	case known >= 0:
		list = slices.Delete(list, known, known+1)
	case len(list) == kept:
		list = slices.Delete(list, 0, 1)
	}

	p.seen[l.Name] = append(list, sighting{lease: l, first: first, began: began})
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
func (r *recorder) sending(p *process, l driver.Record) Op {
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
		if op == Join {
			r.mu.Lock()
			r.joins[l.Name] = append(r.joins[l.Name], join{who, p.index, l.Epoch})
			r.mu.Unlock()
		}
	case l.Nonce != old.lease.Nonce:
		op = Beat
	case !bytes.Equal(l.Data, old.lease.Data):
		op = Save
	}

	if op != Edit && op != Save {
		now := p.clock.Now()
		ev := evidence{watched: now - old.first, confirmed: old.began - old.first}
		if op == Claim {
			ev.fell, ev.waited = p.regressed(l.Name, old.lease)
		}

		r.mu.Lock()
		r.sent[sentKey{p.index, l.Name, l.Nonce}] = ev
		r.mu.Unlock()
	}

	r.add(p, Event{Kind: Sent, Op: op, Name: l.Name, Epoch: l.Epoch, Nonce: l.Nonce, Who: l.Holder.Incarnation,
		Via: l.Via})
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

// answered notes what an answer tells a process: the record, and that an attempt of its own was
// applied.
func (r *recorder) answered(p *process, l driver.Record, began time.Duration) {
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

// applied is the store's hook. It is called under the store's lock. P is who has sent the swap, or,
// if its reaper has, reaper is true.
func (r *recorder) applied(p *process, reaper bool, old, l driver.Record) {
	e := Event{Kind: Applied, Op: Edit, Name: l.Name, Epoch: l.Epoch, Nonce: l.Nonce, Who: l.Holder.Incarnation,
		Via: l.Via,
		Old: old.Holder.Incarnation, OldVia: old.Via, OldEpoch: old.Epoch, OldLease: old.Duration,
		SameID: p != nil && old.Holder.ID == p.id}
	if !isMember(l.Name) {
		e.Data, e.OldData = string(l.Data), string(old.Data)
	}

	if !l.Vacant() && l.Next != old.Next && l.Next != l.Holder.ID {
		e.Next = l.Next
	}

	mine := p != nil && r.owner(e.Old, -1) == p.index
	switch {
	case reaper:
		e.Op = Reap
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
		e.Fell, e.Waited = ev.fell, ev.waited
	}

	r.events = append(r.events, e)
	r.mu.Unlock()
}

func isMember(name string) bool { return strings.HasPrefix(name, driver.MemberRegister("")) }
