package driver

import (
	"maps"
	"slices"
	"strings"
)

// Topic is what a client of a publish/subscribe server subscribes to: one register, or a shared form. A driver gives
// each Topic a channel of its server. Every change of a register is published on the channel of that register and on
// AllTopic, and the change of a member register also on MembersTopic.
type Topic struct {
	Name   string // of the register; empty for a shared form
	shared int8
}

// The shared forms.
var (
	AllTopic     = Topic{shared: sharedAll}     // every register
	MembersTopic = Topic{shared: sharedMembers} // the registers below MemberPrefix
)

const (
	sharedAll = iota + 1
	sharedMembers
	sharedForms = iota + 1
)

// MaxTopics is how many registers are followed by topics of their own. A client that follows more receives every
// change. It returns to single topics when it follows no more than half of that.
const MaxTopics = 256

// Topics holds the subscriptions of a driver whose server has channels, and decides which channels the driver
// subscribes to: one for each register that is followed by name, or a shared form if there are too many names or a
// prefix is followed.
//
// A topic is given up only when other topics in force carry all that is followed. So no notification is lost while a
// driver changes from one form to the other. When a topic comes into force, Topics notifies those who follow a register
// that no other topic carried: it may have changed before.
//
// A driver calls [Topics.Next] after every call of the other methods and does what Next says; it reports what became of
// that with Confirmed, Lost and LostAll. Topics has no lock: a driver guards it with the lock that orders its
// notifications. The zero value is empty and ready to use.
type Topics struct {
	Fanout[chan Record]
	SharedOnly bool // the server has no single topics

	single   map[string]*singleTopic // by name: those that are followed, or not yet given up
	count    [sharedForms]int        // how many names are followed that this form would carry, by form
	prefixed [sharedForms]int        // how many prefixes need a form
	wide     [sharedForms]bool       // too many names are followed
	shared   [sharedForms]topicState
	pending  map[chan Record]string // subscriptions by prefix that no topic carries yet
	changed  map[string]bool        // the names that Next has to check
	recheck  bool                   // all names
	lost     bool                   // the connection was lost, and no topic has come into force since
}

type singleTopic struct {
	followed bool
	carried  bool // by a topic in force, since the last notification or before
	state    topicState
}

type topicState int8

const (
	topicIdle topicState = iota
	topicAsked
	topicInForce
)

// formOf returns the shared form that carries no more than is needed for a name or a prefix.
func formOf(name string) int {
	if strings.HasPrefix(name, MemberPrefix) {
		return sharedMembers
	}
	return sharedAll
}

// Apply takes in a change of the Interest of a subscription.
func (t *Topics) Apply(change InterestChange, c chan Record) {
	if t.Closed() {
		return
	}

	t.Fanout.Apply(change, c)
	for _, prefix := range change.Prefixes {
		t.notePrefix(prefix, c, change.Gone)
	}

	for _, name := range change.Names {
		t.noteName(name)
	}
}

func (t *Topics) notePrefix(prefix string, c chan Record, gone bool) {
	form := formOf(prefix)
	t.recheck = true
	if gone {
		t.prefixed[form]--
		delete(t.pending, c)
		return
	}

	t.prefixed[form]++
	if !t.sharedInForce(form) {
		t.await(c, prefix)
	}
}

func (t *Topics) await(c chan Record, prefix string) {
	if t.pending == nil {
		t.pending = map[chan Record]string{}
	}
	t.pending[c] = prefix
}

// noteName takes in that a name may have become followed, or is so no more.
func (t *Topics) noteName(name string) {
	if t.single == nil {
		t.single = map[string]*singleTopic{}
		t.changed = map[string]bool{}
	}

	s := t.single[name]
	followed := t.Named(name)
	switch {
	case s == nil && !followed:
		return
	case s == nil:
		s = &singleTopic{}
		t.single[name] = s
	case s.followed == followed:
		return
	}

	s.followed = followed
	s.carried = followed && (s.state == topicInForce || t.sharedInForce(formOf(name)))
	t.changed[name] = true
	if followed {
		t.count[formOf(name)]++
	} else {
		t.count[formOf(name)]--
	}
}

// Confirmed takes in that the server has confirmed a subscription. The first one after a lost connection notifies every
// subscription that anything may have changed: a leader then reads what it holds, for another server may answer now.
func (t *Topics) Confirmed(topic Topic) {
	if t.lost {
		t.lost = false
		t.NotifyAll()
	}

	if topic.shared == 0 {
		s := t.single[topic.Name]
		if s == nil || s.state != topicAsked {
			return
		}

		s.state = topicInForce
		t.changed[topic.Name] = true
		t.carry(topic.Name, s)
		return
	}

	if t.shared[topic.shared] != topicAsked {
		return
	}

	t.shared[topic.shared] = topicInForce
	t.recheck = true
	for name, s := range t.single {
		if t.sharedInForce(formOf(name)) {
			t.carry(name, s)
		}
	}

	for c, prefix := range t.pending {
		if t.sharedInForce(formOf(prefix)) {
			delete(t.pending, c)
			Notify(c, Record{})
		}
	}
}

// carry notifies those who follow a register that was not carried until now.
func (t *Topics) carry(name string, s *singleTopic) {
	if !s.followed || s.carried {
		return
	}

	s.carried = true
	for c := range t.named[name] {
		Notify(c, Record{Name: name})
	}
}

// Interrupted takes in that a subscription has ended, and that the driver subscribes again by itself.
func (t *Topics) Interrupted(topic Topic) {
	t.Lost(topic)
	if topic.shared != 0 {
		t.shared[topic.shared] = topicAsked
	} else if s := t.single[topic.Name]; s != nil {
		s.state = topicAsked
	}
}

// Asked reports whether a topic is subscribed to, or was asked for.
func (t *Topics) Asked(topic Topic) bool {
	if topic.shared != 0 {
		return t.shared[topic.shared] != topicIdle
	}
	s := t.single[topic.Name]
	return s != nil && s.state != topicIdle
}

// Lost takes in that a subscription has ended, or was refused.
func (t *Topics) Lost(topic Topic) {
	if topic.shared == 0 {
		if s := t.single[topic.Name]; s != nil {
			s.state = topicIdle
			s.carried = s.carried && t.sharedInForce(formOf(topic.Name))
			t.changed[topic.Name] = true
		}
		return
	}

	t.shared[topic.shared] = topicIdle
	t.recheck = true
	for name, s := range t.single {
		s.carried = s.carried && (s.state == topicInForce || t.sharedInForce(formOf(name)))
	}

	for prefix, c := range t.All() {
		if !t.sharedInForce(formOf(prefix)) {
			t.await(c, prefix)
		}
	}
}

// LostAll takes in that all subscriptions have ended, because the connection is lost.
func (t *Topics) LostAll() {
	t.lost = true
	for _, s := range t.single {
		s.state = topicIdle
	}

	t.Lost(AllTopic)
	t.Lost(MembersTopic)
}

// Next returns the topics to subscribe to, and those to unsubscribe from. It counts both as asked for.
func (t *Topics) Next() (subscribe, unsubscribe []Topic) {
	t.widen()
	for form := sharedAll; form < sharedForms; form++ {
		if t.sharedWanted(form) && t.shared[form] == topicIdle {
			t.shared[form] = topicAsked
			subscribe = append(subscribe, Topic{shared: int8(form)})
		}
	}

	if t.recheck {
		t.recheck = false
		for name := range t.single {
			t.changed[name] = true
		}
	}

	for _, name := range slices.Sorted(maps.Keys(t.changed)) {
		switch t.nextOf(name) {
		case topicAsked:
			subscribe = append(subscribe, Topic{Name: name})
		case topicInForce:
			unsubscribe = append(unsubscribe, Topic{Name: name})
		}
	}

	clear(t.changed)
	return subscribe, t.giveUpShared(unsubscribe)
}

// nextOf reports whether the topic of a name is to be asked for, or is in force and to be given up.
func (t *Topics) nextOf(name string) topicState {
	s := t.single[name]
	form := formOf(name)
	covered := t.sharedWanted(form) || form == sharedMembers && t.sharedWanted(sharedAll)

	next := topicIdle
	switch {
	case s.followed && !covered && s.state == topicIdle:
		s.state = topicAsked
		next = topicAsked
	case s.state == topicInForce && (!s.followed || covered && t.sharedInForce(form)):
		s.state = topicIdle
		next = topicInForce
	}

	if !s.followed && s.state == topicIdle {
		delete(t.single, name)
	}
	return next
}

// giveUpShared adds the shared forms that nobody needs any more.
func (t *Topics) giveUpShared(unsubscribe []Topic) []Topic {
	for form := sharedAll; form < sharedForms; form++ {
		if t.shared[form] == topicInForce && !t.sharedWanted(form) && t.dispensable(form) {
			t.shared[form] = topicIdle
			unsubscribe = append(unsubscribe, Topic{shared: int8(form)})
		}
	}
	return unsubscribe
}

// dispensable reports whether other topics in force carry everything that is followed.
func (t *Topics) dispensable(form int) bool {
	was := t.shared[form]
	t.shared[form] = topicIdle
	defer func() { t.shared[form] = was }()

	for name, s := range t.single {
		if s.followed && s.state != topicInForce && !t.sharedInForce(formOf(name)) {
			return false
		}
	}

	for prefix := range t.All() {
		if !t.sharedInForce(formOf(prefix)) {
			return false
		}
	}
	return true
}

// widen decides whether too many names are followed for single topics.
func (t *Topics) widen() {
	for form := sharedAll; form < sharedForms; form++ {
		wide := t.count[form] > MaxTopics || t.wide[form] && t.count[form] > MaxTopics/2
		if t.SharedOnly {
			wide = t.count[form] > 0
		}
		if wide != t.wide[form] {
			t.wide[form] = wide
			t.recheck = true
		}
	}
}

// sharedWanted reports whether a shared form is needed. The form of the members is not, where there is that of all.
func (t *Topics) sharedWanted(form int) bool {
	if form == sharedMembers && t.sharedWanted(sharedAll) {
		return false
	}
	return t.wide[form] || t.prefixed[form] > 0
}

// sharedInForce reports whether a shared form in force carries what a form would carry.
func (t *Topics) sharedInForce(form int) bool {
	return t.shared[form] == topicInForce || t.shared[sharedAll] == topicInForce
}

// NotifyAll notifies every subscription that anything may have changed.
func (t *Topics) NotifyAll() {
	told := map[chan Record]bool{}
	for _, c := range t.All() {
		told[c] = true
	}
	for _, c := range t.AllNamed() {
		told[c] = true
	}

	for c := range told {
		Notify(c, Record{})
	}
}
