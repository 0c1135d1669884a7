package regent

import (
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// roster is what an engine knows of the live members. Ranks need it. It is a hint and never a proof, so the listing runs
// beside the elections, and none of them waits for it longer than one heartbeat interval.
type roster struct {
	mu       sync.Mutex
	live     []MemberInfo
	known    bool
	listedAt time.Duration // when the last listing was complete
	retryAt  time.Duration // after a listing that failed
	listing  bool
}

// recent returns the live members, if they were listed a short time ago. Else it has them listed, and the engine's loop is
// woken when that is done. When many members join at once, each of them wakes all others: so a short age is accepted.
func (r *roster) recent(e *engine) (live []MemberInfo, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := e.clock.Now()
	if r.known && now-r.listedAt < min(e.reservation(), time.Second)/2 {
		return r.live, true
	}
	if !r.listing && now >= r.retryAt {
		r.listing = true
		e.spawn(func() { r.list(e) })
	}
	return nil, false
}

// list reads all members' registers, as long as that takes.
func (r *roster) list(e *engine) {
	began := e.now()
	found, _, err := e.list(driver.MemberPrefix)
	if err != nil {
		r.mu.Lock()
		r.listing = false
		r.retryAt = e.clock.Now() + e.failureWait()
		r.mu.Unlock()
		e.kick()
		return
	}

	var live []MemberInfo
	now := e.clock.Now()
	for name, l := range found {
		if e.alive(name, l, began, now) {
			live = append(live, memberInfo(l))
		}
	}
	e.forgetMembers(found)

	r.mu.Lock()
	r.live = live
	r.known = true
	r.listing = false
	r.listedAt = e.clock.Now()
	r.mu.Unlock()
	e.kick()
}

// alive takes in a member's register, and reports whether its heartbeat has not expired, as far as this member can tell.
func (e *engine) alive(name string, l driver.Record, began moment, now time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.Vacant() && e.sights[name] == nil {
		return false
	}
	h := e.sightOf(name)
	h.see(l, began, now)
	return !h.lease.Vacant() && !h.gone && now < h.ranOut()
}

// forgetMembers drops what is known of members that have left and that no seat names: it would grow with every ID ever used.
func (e *engine) forgetMembers(found map[string]driver.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	named := map[string]bool{}
	for _, s := range e.seats {
		named[s.lease.Via] = true
	}
	for name, h := range e.sights {
		_, listed := found[name]
		if strings.HasPrefix(name, driver.MemberPrefix) && !named[name] && (h.lease.Vacant() || !listed) {
			delete(e.sights, name)
		}
	}
}
