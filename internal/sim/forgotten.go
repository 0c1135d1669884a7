package sim

import (
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// regressed reports whether a claim in place of old is made although the process has seen more than
// that record shows, or although the heartbeat register has forgotten that its holder ever joined;
// and for how long the process has known.
func (p *process) regressed(election string, old driver.Record) (fell bool, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	waited = never
	if h := p.heights[election]; h != nil && old.Epoch < h.highest {
		fell = true
		waited = 0
		if h.hasFell {
			waited = now - h.fell
		}
	}

	who := old.Holder.Incarnation
	since, ok := p.forgotten[who]
	if h := p.heights[old.Via]; ok && h != nil && p.rec.forgets(h.last, who) && !p.sawEnd(election, old) {
		for _, s := range p.seen[election] {
			if s.lease.Holder == old.Holder {
				since = max(since, s.first) // before that nobody asked whether it lives
				break
			}
		}

		fell = true
		waited = min(waited, now-since)
	}

	return fell, waited
}

// sawEnd reports whether the process has seen that the holder of a record had ended, by a request that it sent after it
// had received the record. That death is final, whatever the register shows later: a register that is missing in a list
// of all members, which a process reads for ranks alone, need not make it wait. The mutex is held.
func (p *process) sawEnd(election string, old driver.Record) bool {
	began, ok := p.endSeen[old.Holder.Incarnation]
	met, known := p.met[claimant{election, old.Holder.Incarnation}]
	return ok && known && began >= met
}

// claimant is an election and the incarnation that a record of it names.
type claimant struct{ election, who string }

// meet notes when a record was first received that names a holder. A record that comes back later, because the store
// has gone back, is no reason to prove its holder's end anew. The mutex is held.
func (p *process) meet(l driver.Record) {
	at := claimant{l.Name, l.Holder.Incarnation}
	if _, known := p.met[at]; known || l.Vacant() {
		return
	}

	if p.met == nil {
		p.met = map[claimant]time.Duration{}
	}

	p.met[at] = p.clock.Now()
}

// forget notes which incarnations a heartbeat register does not know any more although they have
// joined, and which have ended by what it shows to a request that was sent at began. The mutex is held.
//
// If a read that may be older has shown less before, the process has known since then.
func (p *process) forget(l driver.Record, began time.Duration) {
	noticed := p.clock.Now()
	if early := p.heights[l.Name].early; early != 0 {
		noticed = early
	}

	for _, j := range p.rec.joinsOf(l.Name) {
		if j.endedBy(l) {
			p.endSeen[j.who] = began
		}

		if _, known := p.forgotten[j.who]; !known && j.proc != p.index && j.forgottenBy(l) {
			p.forgotten[j.who] = noticed
		}
	}
}

// endedBy reports whether a heartbeat register shows that an incarnation has joined and ended.
func (j join) endedBy(l driver.Record) bool {
	return l.Epoch > j.count || l.Epoch == j.count && l.Vacant()
}

// forgottenBy reports whether a heartbeat register does not know of an incarnation: it counts
// fewer, or shows another one with the same number.
func (j join) forgottenBy(l driver.Record) bool {
	return l.Epoch < j.count || l.Epoch == j.count && !l.Vacant() && l.Holder.Incarnation != j.who
}

func (r *recorder) forgets(l driver.Record, who string) bool {
	return slices.ContainsFunc(r.joinsOf(l.Name), func(j join) bool { return j.who == who && j.forgottenBy(l) })
}

// join is an incarnation of a member, and its number.
type join struct {
	who   string
	proc  int
	count uint64
}

func (r *recorder) joinsOf(register string) []join {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joins[register]
}
