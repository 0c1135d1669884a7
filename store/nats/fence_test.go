package nats

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

// ledger is a stream of an application.
type ledger struct {
	t      *testing.T
	js     jetstream.JetStream
	stream string
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	l := ledger{t, plain(t, shared), fmt.Sprintf("APP%d", numbers.Add(1))}
	cfg := jetstream.StreamConfig{Name: l.stream, Subjects: []string{l.stream + ".>"}, AllowDirect: true}
	if _, err := l.js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l ledger) write(term regent.Term, text string) error {
	l.t.Helper()
	_, err := Fence(l.t.Context(), l.js, l.stream, term, &nats.Msg{Subject: l.stream + ".orders", Data: []byte(text)})
	return err
}

// last returns what the subject shows, and the number of messages.
func (l ledger) last() (text string, messages uint64) {
	l.t.Helper()
	stream, err := l.js.Stream(l.t.Context(), l.stream)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(l.t.Context(), l.stream+".orders")
	if err != nil {
		l.t.Fatal(err)
	}
	return string(m.Data), stream.CachedInfo().State.Msgs
}

func term(epoch uint64, incarnation string) regent.Term {
	return regent.Term{Election: election, Epoch: epoch, Incarnation: incarnation}
}

func TestFence(t *testing.T) {
	l := newLedger(t)
	if _, err := l.js.Publish(t.Context(), l.stream+".orders", []byte("before any fence")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		term  regent.Term
		text  string
		stale bool
	}{
		{term(3, "A"), "first", false},
		{term(3, "A"), "again", false},
		{term(2, "A"), "older", true},
		{term(3, "B"), "another term with the same epoch", true},
		{term(5, "B"), "newer", false},
		{term(3, "A"), "deposed", true},
	} {
		var stale *regent.StaleError
		if err := l.write(c.term, c.text); errors.As(err, &stale) != c.stale || !c.stale && err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if text, n := l.last(); text != "newer" || n != 4 {
		t.Errorf("the subject shows %q after %d messages", text, n)
	}
}

func TestFenceRefusesWhatItCannotCompare(t *testing.T) {
	l := newLedger(t)
	if err := l.write(term(3, "A"), "x"); err != nil {
		t.Fatal(err)
	}
	other := term(4, "A")
	other.Election = "other"
	if err := l.write(other, "y"); err == nil || !strings.Contains(err.Error(), `election "orders"`) {
		t.Errorf("a term of another election: %v", err)
	}
	for _, bad := range []regent.Term{{Election: election}, term(4, "")} {
		if err := l.write(bad, "y"); !errors.Is(err, regent.ErrInvalidToken) {
			t.Errorf("%+v: %v, want ErrInvalidToken", bad, err)
		}
	}
}

// TestFenceAgainstAnInterruptedLeader publishes on what a leader has read before it was frozen.
func TestFenceAgainstAnInterruptedLeader(t *testing.T) {
	l := newLedger(t)
	old := term(3, "A")
	if err := l.write(old, "first"); err != nil {
		t.Fatal(err)
	}
	last, err := admitted(t.Context(), l.js, l.stream, old, l.stream+".orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.write(term(4, "B"), "newer"); err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: l.stream + ".orders", Data: []byte("late")}
	a, err := publishFenced(t.Context(), l.js.Conn(), l.stream, old, m, last)
	if err != nil || a.Error == nil {
		t.Errorf("a message on what was read before a newer term: %+v, %v", a, err)
	}
	if text, _ := l.last(); text != "newer" {
		t.Errorf("the subject shows %q", text)
	}
}

// TestFenceOfManyWriters has one term publish from many goroutines: each message is stored once.
func TestFenceOfManyWriters(t *testing.T) {
	l := newLedger(t)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			if err := l.write(term(3, "A"), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if _, n := l.last(); n != 4 {
		t.Errorf("%d messages of 4", n)
	}
}

// TestFenceAgainstTwoTerms has the store lose a claim, so that two terms have one epoch: one of them may publish.
func TestFenceAgainstTwoTerms(t *testing.T) {
	s := open(t, fresh())
	l := newLedger(t)
	first, second := storetest.TwoTerms(t, s, election, func() (restore func()) {
		return func() {
			if err := s.stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	var stale *regent.StaleError
	if err := l.write(second, "second"); err != nil {
		t.Error(err)
	}
	if err := l.write(first, "first"); !errors.As(err, &stale) {
		t.Errorf("the first of two terms in one epoch: %v, want a StaleError", err)
	}
}
