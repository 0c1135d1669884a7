package s3

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is about writes that come late: the answer is lost, a read shows nothing, and the PUT is carried out after
// the read and after the deadline. The proxy holds the request, and delivers it later.

// late is a crowd with one member behind a proxy, and a store that sees everything.
type late struct {
	*crowd
	proxy  *proxy
	direct *Store
	behind *Store
}

func newLate(t *testing.T) *late {
	t.Parallel()
	p := startProxy(t, shared.endpoint())
	direct := open(t, fresh(shared.endpoint()))
	return &late{newCrowd(t), p, direct, unprobed(t, through(direct, p))}
}

// holdPuts holds the writes of registers whose names begin with a prefix.
func (l *late) holdPuts(prefix string) {
	begin := "/" + bucket + "/" + l.direct.addr.keyPrefix(prefix)
	l.proxy.set(func(r *http.Request) fault {
		if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, begin) {
			return hold
		}
		return nil
	})
}

// wait lets time pass.
func (l *late) wait(d time.Duration) {
	end := time.Now().Add(d)
	l.until("time passes", func() bool { return time.Now().After(end) })
}

// record returns what the server shows.
func (l *late) record(name string) driver.Record {
	l.t.Helper()
	got, err := l.direct.Get(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

// Heartbeats that come after another member has revoked the leader change nothing.
func TestALateHeartbeat(t *testing.T) {
	l := newLate(t)
	a, _ := l.join("a", l.behind)
	first := l.leads(a, 0)
	before := l.record(driver.MemberRegister("a")).Holder
	b, _ := l.join("b", l.direct)

	l.holdPuts("")
	second := l.leads(b, first)
	heartbeat := func(key string) bool { return strings.HasSuffix(key, "regent/member/a.json") }
	held := l.proxy.heldKeys()
	i := slices.IndexFunc(held, heartbeat)
	if i < 0 {
		t.Fatalf("no heartbeat was held, but %q", held)
	}

	// Later ones may be of the next incarnation, which may join.
	if status := l.proxy.deliver(t.Context())[i]; status != http.StatusPreconditionFailed {
		t.Errorf("a late heartbeat was answered with %d, want 412", status)
	}
	if now := l.record(driver.MemberRegister("a")).Holder; now == before {
		t.Errorf("the register shows %v, whose incarnation has ended", now)
	}
	if _, leads := a.Leads(election); leads {
		t.Error("a leads by a heartbeat that came late")
	}
	l.wait(quick().LeaseDuration)
	if term, ok := b.Leads(election); !ok || term.Epoch != second {
		t.Errorf("b leads: %v, in epoch %d, want %d", ok, term.Epoch, second)
	}
}

// A claim that is carried out when its sender's incarnation has ended is nobody's: its sender does not believe it, and
// the next term has a higher epoch.
func TestALateClaim(t *testing.T) {
	l := newLate(t)
	l.holdPuts(election)
	a, _ := l.join("a", l.behind)
	l.until("a claims", func() bool { return len(l.proxy.heldKeys()) > 0 })
	claimant := l.record(driver.MemberRegister("a")).Holder

	l.holdPuts("") // heartbeats too: the incarnation of the claim ends
	l.wait(quick().LeaseDuration + time.Second)
	if _, leads := a.Leads(election); leads {
		t.Error("a leads by a claim that nobody has carried out")
	}
	held := l.proxy.heldKeys()
	statuses := l.proxy.deliver(t.Context())
	carried := 0
	for i, key := range held {
		if strings.HasSuffix(key, "/"+election+suffix) && statuses[i] == http.StatusOK {
			carried++
		}
	}
	if carried != 1 {
		t.Fatalf("of the writes to %q %d claims were carried out, want one; answers %d", held, carried, statuses)
	}
	late := l.record(election)
	if late.Holder != claimant {
		t.Fatalf("the late claim shows %v, want %v", late.Holder, claimant)
	}

	l.proxy.set(nil)
	next := l.leads(a, 0)
	if now := l.record(election); next <= late.Epoch || now.Holder == claimant || now.Epoch != next {
		t.Errorf("a leads in epoch %d, and the register shows %v in epoch %d, after the late claim of %v in epoch %d",
			next, now.Holder, now.Epoch, claimant, late.Epoch)
	}
}

// A claim that is carried out while its sender's incarnation lives, after the sender has read that it was not, is
// adopted or released: another member that campaigns does not wait for ever, and nobody leads in two terms of one
// epoch.
func TestALateClaimOfALiveMember(t *testing.T) {
	l := newLate(t)
	l.holdPuts(election)
	a, stop := l.join("a", l.behind)
	l.until("a claims twice", func() bool { return len(l.proxy.heldKeys()) >= 2 })
	l.wait(quick().LeaseDuration) // longer than a claim counts from when it was sent

	l.proxy.set(nil)
	statuses := l.proxy.deliver(t.Context())
	if !slices.Contains(statuses, http.StatusPreconditionFailed) {
		t.Fatalf("the held claims were answered with %d, want one of them refused", statuses)
	}
	epoch := l.leads(a, 0)
	if now := l.record(election); now.Holder.ID != "a" || now.Epoch != epoch {
		t.Errorf("a leads in epoch %d, and the register shows %v in epoch %d", epoch, now.Holder, now.Epoch)
	}
	b, _ := l.join("b", l.direct)
	stop()
	l.leads(b, epoch)
}

// Once a release has been sent, its term is over, although reads show it until the release comes, late.
func TestALateRelease(t *testing.T) {
	l := newLate(t)
	a, _ := l.join("a", l.behind)
	first := l.leads(a, 0)
	l.holdPuts(election)
	if err := a.StepDown(t.Context(), election); err != nil {
		t.Log(err) // it is not known whether the release was carried out
	}
	l.until("a release is held", func() bool { return len(l.proxy.heldKeys()) > 0 })
	if _, leads := a.Leads(election); leads {
		t.Error("a leads although it has sent a release")
	}
	if shown := l.record(election); shown.Holder.ID != "a" || shown.Epoch != first {
		t.Fatalf("the register shows %v in epoch %d before the release came", shown.Holder, shown.Epoch)
	}
	l.wait(time.Second)
	if term, leads := a.Leads(election); leads && term.Epoch == first {
		t.Errorf("a believes a term again that it has released")
	}

	l.proxy.set(nil)
	l.proxy.deliver(t.Context())
	l.somebodyLeads(first)
}
