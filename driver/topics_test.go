package driver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
)

// server is a publish/subscribe server, and a client that follows registers by driver.Topics.
type server struct {
	t        *testing.T
	topics   driver.Topics
	interest *driver.Interest
	notices  chan driver.Record

	subscribed map[driver.Topic]bool
	asked      []driver.Topic  // subscriptions that the client has asked for and the server has not confirmed
	unheard    map[string]bool // the registers that have changed since the client was last notified
	commands   int             // how many topics were subscribed to, or unsubscribed from
}

func newServer(t *testing.T, to *driver.Interest) *server {
	s := &server{t: t, interest: to, notices: make(chan driver.Record, 1)}
	s.subscribed = map[driver.Topic]bool{}
	s.unheard = map[string]bool{}
	to.Observe(func(change driver.InterestChange) {
		s.topics.Apply(change, s.notices)
		if !change.Gone {
			for _, name := range change.Names {
				delete(s.unheard, name) // whoever follows it reads it after that
			}
		}
	})
	return s
}

// next has the client ask for what it wants.
func (s *server) next() {
	subscribe, unsubscribe := s.topics.Next()
	s.asked = append(s.asked, subscribe...)
	s.commands += len(subscribe) + len(unsubscribe)
	for _, t := range unsubscribe {
		if !s.subscribed[t] {
			s.t.Fatalf("unsubscribes from %v without a subscription", t)
		}
		delete(s.subscribed, t)
	}
}

// confirm confirms one subscription.
func (s *server) confirm() {
	if len(s.asked) == 0 {
		return
	}

	t := s.asked[0]
	s.asked = s.asked[1:]
	if s.subscribed[t] {
		s.t.Fatalf("subscribes to %v twice", t)
	}

	s.subscribed[t] = true
	s.topics.Confirmed(t)
	s.receive()
}

// settle confirms everything.
func (s *server) settle() {
	for s.next(); len(s.asked) > 0; s.next() {
		s.confirm()
	}
}

// disconnect loses all subscriptions.
func (s *server) disconnect() {
	clear(s.subscribed)
	s.asked = nil
	s.topics.LostAll()
}

// change changes a register.
func (s *server) change(name string) {
	s.unheard[name] = true
	member := strings.HasPrefix(name, driver.MemberPrefix)
	carried := s.subscribed[driver.AllTopic] || s.subscribed[driver.Topic{Name: name}] ||
		member && s.subscribed[driver.MembersTopic]
	if !carried {
		return
	}

	for c := range s.topics.Matching(name) {
		driver.Notify(c, driver.Record{Name: name})
	}
	s.receive()
}

// receive has the client read what it was notified of.
func (s *server) receive() {
	select {
	case l := <-s.notices:
		if l.Name == "" {
			clear(s.unheard)
		}
		delete(s.unheard, l.Name)
	default:
	}
}

// check fails the test if the client follows a register that has changed, and was not notified.
func (s *server) check(when string) {
	s.t.Helper()
	for name := range s.unheard {
		if s.interest.Covers(name) {
			s.t.Fatalf("%s: %s has changed, and no notification has come", when, name)
		}
	}
}

func (s *server) wantTopics(want ...driver.Topic) {
	s.t.Helper()
	if len(want) != len(s.subscribed) {
		s.t.Fatalf("subscribed to %v, want %v", s.subscribed, want)
	}
	for _, t := range want {
		if !s.subscribed[t] {
			s.t.Fatalf("subscribed to %v, want %v", s.subscribed, want)
		}
	}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}

func TestTopics(t *testing.T) {
	member := driver.MemberRegister("a")

	t.Run("a_name_is_a_topic_of_its_own", func(t *testing.T) {
		s := newServer(t, driver.Names("a", member))
		s.settle()
		s.wantTopics(driver.Topic{Name: "a"}, driver.Topic{Name: member})
		s.interest.Remove("a", "other")
		s.settle()
		s.wantTopics(driver.Topic{Name: member})
	})

	t.Run("a_prefix_is_a_shared_topic", func(t *testing.T) {
		s := newServer(t, driver.Prefix(driver.MemberPrefix))
		s.settle()
		s.wantTopics(driver.MembersTopic)
		s = newServer(t, driver.Prefix("a"))
		s.settle()
		s.wantTopics(driver.AllTopic)
	})

	t.Run("too_many_names_are_a_shared_topic", func(t *testing.T) {
		all := names("seat ", driver.MaxTopics+1)
		s := newServer(t, driver.Names(all[1:]...))
		s.settle()
		if len(s.subscribed) != driver.MaxTopics || s.subscribed[driver.AllTopic] {
			t.Fatalf("%d names are %d topics", driver.MaxTopics, len(s.subscribed))
		}

		s.interest.Add(all[0], member)
		s.settle()
		s.wantTopics(driver.AllTopic)
		s.interest.Remove(all[:driver.MaxTopics/2]...)
		s.settle()
		s.wantTopics(driver.AllTopic) // not yet: one more would bring it back
		s.interest.Remove(all[driver.MaxTopics/2])
		s.settle()
		if len(s.subscribed) != driver.MaxTopics/2+1 || s.subscribed[driver.AllTopic] {
			t.Fatalf("%d names are %d topics", driver.MaxTopics/2+1, len(s.subscribed))
		}
	})

	t.Run("a_server_without_single_topics_has_shared_ones", func(t *testing.T) {
		s := newServer(t, driver.Names("a"))
		s.topics.SharedOnly = true
		s.settle()
		s.wantTopics(driver.AllTopic)
		s.interest.Remove("a")
		s.settle()
		s.wantTopics()
	})

	t.Run("a_name_that_is_added_is_notified_of_when_it_takes_effect", func(t *testing.T) {
		s := newServer(t, driver.Names("a"))
		s.settle()
		s.interest.Add("b")
		s.change("b") // before the server knows
		s.settle()
		s.check("after the subscription")
	})

	t.Run("after_a_lost_connection_all_is_notified_of_again", func(t *testing.T) {
		for _, to := range []*driver.Interest{driver.Names("a", "b"), driver.Prefix(""), driver.Prefix("a")} {
			s := newServer(t, to)
			s.change("a") // before the server knows
			s.settle()
			s.check("after the subscription")
			for range 2 {
				s.disconnect()
				s.change("a")
				s.settle()
				s.check("after another connection")
			}
		}
	})

	t.Run("a_change_costs_no_more_than_its_own_topics", func(t *testing.T) {
		s := newServer(t, driver.Names(names("seat ", 100)...))
		s.settle()
		before := s.commands
		for range 10 {
			s.interest.Add("one more")
			s.settle()
			s.interest.Remove("one more")
			s.settle()
		}
		if got := s.commands - before; got != 20 {
			t.Errorf("20 changes took %d subscriptions", got)
		}
	})
}

// TestTopicsLoseNothing follows at random, with more and fewer names than have topics of their own, over connections
// that are lost: whoever follows a register that has changed is notified, at the latest when all is confirmed.
func TestTopicsLoseNothing(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		all := append(names("seat ", driver.MaxTopics*3/2), names(driver.MemberPrefix, driver.MaxTopics*3/2)...)
		s := newServer(t, driver.Names())
		rest := func() {}
		for i := range 400 {
			switch n := r.IntN(20); {
			case n < 3:
				s.interest.Add(some(r, all)...)
			case n < 5:
				s.interest.Remove(some(r, all)...)
			case n == 5 && i%7 == 0:
				s.disconnect()
			case n == 6 && i%5 == 0:
				rest()
				rest = s.interestIn(driver.Prefix([]string{"", "seat", driver.MemberPrefix}[r.IntN(3)]))
			case n == 7:
				s.settle()
				s.check(fmt.Sprint("seed ", seed, ", settled"))
			case n < 12:
				s.next()
			case n < 16:
				for range r.IntN(len(s.asked) + 1) {
					s.confirm()
				}
			default:
				s.change(all[r.IntN(len(all))])
			}
		}

		s.settle()
		s.check(fmt.Sprint("seed ", seed))
	}
}

// interestIn subscribes somebody else, whose notifications nobody takes, until the function returned is called.
func (s *server) interestIn(to *driver.Interest) func() {
	c := make(chan driver.Record, 1)
	return to.Observe(func(change driver.InterestChange) { s.topics.Apply(change, c) })
}

// some returns a part of all.
func some(r *rand.Rand, all []string) []string {
	from := r.IntN(len(all))
	return slices.Clone(all[from:min(len(all), from+1+r.IntN(200))])
}

func TestInterest(t *testing.T) {
	var log []string
	i := driver.Names("a")
	stop := i.Observe(func(c driver.InterestChange) { log = append(log, fmt.Sprint(c)) })
	i.Add("a", "b", "b")
	i.Add("b")
	i.Remove("a", "c")
	i.Remove("c")
	if !i.Covers("b") || i.Covers("a") || i.Covers("") {
		t.Error("it does not cover b alone")
	}
	stop()
	stop()
	i.Add("d")
	if got, want := fmt.Sprint(log), "[{false [a] []} {false [b] []} {true [a] []} {true [b] []}]"; got != want {
		t.Errorf("changes are %s, want %s", got, want)
	}

	var none driver.Interest
	if none.Covers("a") || none.String() != "names" {
		t.Error("the zero Interest covers something")
	}

	p := driver.Prefix("a/")
	if !p.Covers("a/b") || p.Covers("a") || p.String() != "a/*" {
		t.Error("a prefix covers something else")
	}
}
