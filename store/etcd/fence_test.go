package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// reign is a real term of a real member, and a key of an application beside it.
type reign struct {
	t      *testing.T
	store  *Store
	client *clientv3.Client // the application's
	term   regent.Term
	stop   func() // ends the member
}

// reigning makes a member lead with leases that outlast a test.
func reigning(t *testing.T) *reign {
	t.Helper()
	cfg := regent.Lock()
	cfg.LeaseDuration = 10 * time.Minute
	r := &reign{t: t, store: open(t, fresh()), client: plain(t, shared...)}
	terms := make(chan regent.Term, 1)
	m := &regent.Member{ID: "a", Store: r.store, Config: cfg}
	work := func(ctx context.Context, t regent.Term) error {
		terms <- t
		<-ctx.Done()
		return ctx.Err()
	}
	r.stop = storetest.RunMember(t, m, regent.Duty{Election: election, Run: work})
	r.term = <-terms
	return r
}

// conditions returns what Fence returns for the prefix of the test.
func (r *reign) conditions() []clientv3.Cmp {
	r.t.Helper()
	all, err := FencePrefix(r.term, r.store.addr.prefix)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// put writes the application's key under conditions, and reports whether it was written.
func (r *reign) put(conditions []clientv3.Cmp) bool {
	r.t.Helper()
	answer, err := r.client.Txn(r.t.Context()).If(conditions...).Then(clientv3.OpPut(r.app(), "billed")).Commit()
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.Succeeded
}

func (r *reign) app() string { return "app" + r.store.addr.prefix }

// change changes the election's record as another member, or the leader itself, would.
func (r *reign) change(how func(*driver.Record)) {
	r.t.Helper()
	for {
		l, err := r.store.Get(r.t.Context(), election)
		if err != nil {
			r.t.Fatal(err)
		}
		l.Nonce++
		how(&l)
		switch _, err = r.store.Swap(r.t.Context(), l); {
		case err == nil:
			return
		case !errors.Is(err, driver.ErrConflict): // the leader has just renewed it
			r.t.Fatal(err)
		}
	}
}

func TestFenceRefusesADeposedLeader(t *testing.T) {
	for name, how := range map[string]func(*driver.Record){
		"another_member_has_claimed": func(l *driver.Record) {
			l.Holder = driver.Identity{ID: "b", Incarnation: "B1"}
			l.Epoch++
		},
		"another_term_has_the_same_epoch": func(l *driver.Record) {
			l.Holder = driver.Identity{ID: "b", Incarnation: "B1"}
		},
		"the_same_incarnation_has_another_epoch": func(l *driver.Record) { l.Epoch++ },
		"the_election_was_released":              func(l *driver.Record) { l.Holder = driver.Identity{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := reigning(t)
			late := r.conditions() // by a leader that is frozen from here on
			r.change(how)
			if r.put(late) {
				t.Error("a deposed leader has written")
			}
			if answer, err := r.client.Get(t.Context(), r.app()); err != nil || answer.Count != 0 {
				t.Errorf("the application's key: %v, %v", answer, err)
			}
		})
	}
}

func TestFenceAdmitsTheLeader(t *testing.T) {
	r := reigning(t)
	before := r.conditions()
	for what, how := range map[string]func(*driver.Record){
		"a renewal":    func(*driver.Record) {},
		"a checkpoint": func(l *driver.Record) { l.Data = []byte("saved") },
		"a request":    func(l *driver.Record) { l.Edits++ },
	} {
		r.change(how)
		if !r.put(before) || !r.put(r.conditions()) {
			t.Errorf("after %s the leader was refused", what)
		}
	}
}

// TestFenceAgainstTwoTerms has the store lose a claim, so that two terms have one epoch: one of them may write.
func TestFenceAgainstTwoTerms(t *testing.T) {
	r := &reign{t: t, store: open(t, fresh()), client: plain(t, shared...)}
	key := r.store.key(election)
	first, second := storetest.TwoTerms(t, r.store, election, func() (restore func()) {
		return func() {
			if _, err := r.client.Delete(context.Background(), key); err != nil {
				t.Fatal(err)
			}
		}
	})

	for who, c := range map[string]struct {
		term regent.Term
		want bool
	}{"the first": {first, false}, "the second": {second, true}} {
		r.term = c.term
		conditions, err := FencePrefix(c.term, r.store.addr.prefix)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if got := r.put(conditions); got != c.want {
			t.Errorf("%s of two terms in one epoch has written: %v", who, got)
		}
	}
}

func TestFenceAfterTheTerm(t *testing.T) {
	r := reigning(t)
	r.stop()
	if _, err := Fence(r.term); !errors.Is(err, regent.ErrNotLeader) {
		t.Errorf("Fence after the end of the term: %v, want ErrNotLeader", err)
	}
	if _, err := Fence(regent.Term{Election: election}); !errors.Is(err, regent.ErrInvalidToken) {
		t.Errorf("Fence of no term: %v, want ErrInvalidToken", err)
	}
}

func TestFenceOfAnotherStore(t *testing.T) {
	r := reigning(t)
	conditions, err := Fence(r.term) // the prefix is another one
	if err != nil {
		t.Fatal(err)
	}
	if r.put(conditions) {
		t.Error("written, although the store shows no such election")
	}
	if _, err := FencePrefix(r.term, "app"); err == nil || !strings.Contains(err.Error(), "slash") {
		t.Errorf("a prefix without slashes: %v", err)
	}
}

// TestFenceOfNeighbours checks terms whose names and epochs begin alike.
func TestFenceOfNeighbours(t *testing.T) {
	s := open(t, fresh())
	client := plain(t, shared...)
	for _, shown := range []struct {
		epoch       uint64
		incarnation string
	}{{1, "A"}, {1, "A/"}, {1, "A0"}, {1, `A"`}, {1, "AB"}, {10, "A"}, {1, ""}, {1, "a"}} {
		name := fmt.Sprintf("%d-%x", shown.epoch, shown.incarnation)
		storetest.Swap(t, s, driver.Record{Name: name, Epoch: shown.epoch, Nonce: 1,
			Holder: driver.Identity{ID: "x", Incarnation: shown.incarnation}})
		answer, err := client.Txn(t.Context()).If(begins(s.key(name), stampField+stampOfTerm(1, "A"))...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if want := shown.epoch == 1 && shown.incarnation == "A"; answer.Succeeded != want {
			t.Errorf("epoch 1 of term A, and the register shows %d of %q: %v", shown.epoch, shown.incarnation,
				answer.Succeeded)
		}
	}
}
