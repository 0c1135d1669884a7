package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	// maxPause is the longest pause between two attempts to watch.
	maxPause = time.Second
	// forbiddenPause is the pause after an attempt for which this user has no permission.
	forbiddenPause = 30 * time.Second
)

// notifier holds the subscriptions: one watch for each register that is followed by its name, or one for all. All
// watches share HTTP/2 connections. Connections that do not answer are given up together, with the client that has
// them.
//
// Every watch begins with the state of its Leases, and goes on with changes. So none asks for what has happened since a
// resourceVersion, and none can be too late for that: a watch that has ended begins anew, and its subscribers read.
type notifier struct {
	s  *Store
	mu sync.Mutex

	topics driver.Topics
	ends   map[driver.Topic]context.CancelFunc // of the watches
	client *watchClient
	failed int // how often in a row a watch could not begin
	warned bool
}

// watchClient is the connections of the watches, until they are given up.
type watchClient struct {
	leases rest.Interface
	hangUp func()
	ctx    context.Context // ends with them
	cancel context.CancelFunc
	made   time.Time
}

func (p *notifier) init(s *Store) error {
	p.s = s
	p.ends = map[driver.Topic]context.CancelFunc{}
	return p.renewClient()
}

// renewClient gives up the connections of the watches, and those of the watches that have begun over them.
func (p *notifier) renewClient() error {
	leases, hangUp, err := p.s.clients.connect(rest.CopyConfig(p.s.config))
	if err != nil {
		return err
	}

	if p.client != nil {
		p.client.cancel()
	}
	c := &watchClient{leases: leases, hangUp: hangUp, made: time.Now()}
	c.ctx, c.cancel = context.WithCancel(p.s.ctx)
	p.client = c
	return nil
}

// Subscribe implements [driver.Notifier] with watches.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return to.Subscription(ctx, s.notifier.apply)
}

// apply takes in a change of what a subscription follows.
func (p *notifier) apply(change driver.InterestChange, c chan driver.Record) {
	p.mu.Lock()
	p.topics.Apply(change, c)
	p.nextLocked()
	p.mu.Unlock()
}

// nextLocked begins and ends watches as the subscriptions need them.
func (p *notifier) nextLocked() {
	if p.topics.Closed() {
		return
	}

	subscribe, unsubscribe := p.topics.Next()
	for _, topic := range unsubscribe {
		if end := p.ends[topic]; end != nil {
			end()
			delete(p.ends, topic)
		}
	}
	for _, topic := range subscribe {
		ctx, cancel := context.WithCancel(p.client.ctx)
		p.ends[topic] = cancel
		client := p.client
		p.s.goroutines.Go(func() {
			defer client.hangUp()
			defer cancel()
			p.follow(ctx, client, topic)
		})
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Close()
	if p.client != nil {
		p.client.cancel()
	}
}

// unanswered takes in that an API server has not answered a request. Its watches may be silent too, so they begin anew
// over other connections.
func (p *notifier) unanswered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil && len(p.ends) > 0 && time.Since(p.client.made) > maxPause {
		p.loseLocked(p.client)
	}
}

// loseLocked gives up the connections of a client, and begins all watches anew.
func (p *notifier) loseLocked(c *watchClient) {
	if p.topics.Closed() || p.client != c {
		return // it is known already
	}
	if err := p.renewClient(); err != nil {
		p.s.warn(fmt.Sprintf("%s: changes are found by polling alone: %v", p.s, err))
		return
	}

	clear(p.ends) // they have ended with the client
	p.topics.LostAll()
	p.nextLocked()
}

// follow watches a topic until ctx ends.
func (p *notifier) follow(ctx context.Context, client *watchClient, topic driver.Topic) {
	short := 0 // how often in a row the watch has ended soon
	for p.pause(ctx, short) {
		began := time.Now()
		err := p.watch(ctx, client, topic)
		if !p.ended(ctx, client, topic, err) {
			return
		}

		if short++; time.Since(began) > maxPause {
			short = 0
		}
		if apierrors.IsForbidden(err) && !wait(ctx, forbiddenPause) {
			return
		}
	}
}

// pause waits before a watch begins: longer, the more often it has failed. It reports whether ctx is still in force.
func (p *notifier) pause(ctx context.Context, short int) bool {
	p.mu.Lock()
	pause := min(time.Duration(p.failed+short)*50*time.Millisecond, maxPause)
	p.mu.Unlock()
	return wait(ctx, pause)
}

// wait waits, and reports whether ctx is still in force.
func wait(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// ended takes in that a watch has ended, and reports whether it begins again by itself. It does if the API server has
// ended it. If the server did not answer, all watches begin anew.
func (p *notifier) ended(ctx context.Context, client *watchClient, topic driver.Topic, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}

	if err != nil {
		p.failed++
	}
	if apierrors.IsForbidden(err) && !p.warned {
		p.warned = true
		p.s.warn(fmt.Sprintf("%s: changes are found by polling alone: watch: %v", p.s, p.s.advise(err)))
	}
	if away(err) {
		p.loseLocked(client)
		return false
	}
	p.topics.Interrupted(topic)
	return true
}

// errEnded is why a watch has ended that the connection has ended: the server, or what is in between, is gone.
var errEnded = errors.New("the connection has ended")

// watch watches a topic until the watch ends. The error is nil if the API server has ended it, as it does with every
// watch after a while.
func (p *notifier) watch(ctx context.Context, client *watchClient, topic driver.Topic) error {
	p.s.sent.Add("watch")
	options := p.s.addr.watchOptions(topic)
	events, err := client.leases.Get().Namespace(p.s.addr.namespace).Resource("leases").MaxRetries(0).
		VersionedParams(options, p.s.clients.params).Watch(ctx)
	if err != nil {
		return err
	}
	defer events.Stop()
	p.begun(ctx, topic)

	last := map[string]driver.Record{} // what decides whether a change is notable, by register
	for event := range events.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		switch {
		case event.Type == watch.Error:
			return expired(apierrors.FromObject(event.Object))
		case !ok || event.Type == watch.Bookmark:
		default:
			p.publish(ctx, last, event.Type, lease)
		}
	}
	return nil
}

// expired returns why an API server has ended a watch. A watch that was too slow, so that its place in the history is
// gone (410), has ended as any other.
func expired(err error) error {
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return nil
	case apierrors.IsUnexpectedServerError(err) || apierrors.IsInternalError(err):
		return errEnded // client-go could not read the answer to its end
	}
	return err
}

// watchOptions returns which Leases a topic is about. A register that is followed by its name needs no label: nobody
// but a client-go elector may have written it so far.
func (a *address) watchOptions(topic driver.Topic) *metav1.ListOptions {
	o := &metav1.ListOptions{Watch: true, ResourceVersion: "0"} // begin with the state that the server's cache shows
	switch topic {
	case driver.AllTopic:
		o.LabelSelector = a.selector("")
	case driver.MembersTopic:
		o.LabelSelector = a.selector(driver.MemberPrefix)
	default:
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.leaseName(topic.Name)).String()
	}
	return o
}

// begun takes in that a watch has begun.
func (p *notifier) begun(ctx context.Context, topic driver.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.failed = 0
	p.topics.Confirmed(topic)
	p.nextLocked()
}

// publish notifies of a change, if it is notable. A removal notifies nobody.
func (p *notifier) publish(ctx context.Context, last map[string]driver.Record, kind watch.EventType,
	lease *coordinationv1.Lease) {
	l, err := p.s.addr.decode(lease)
	if err != nil {
		l = driver.Record{Name: l.Name}
	}
	if kind == watch.Deleted {
		delete(last, l.Name)
		return
	}

	was, known := last[l.Name]
	last[l.Name] = driver.Record{Holder: l.Holder, Epoch: l.Epoch, Next: l.Next, Paused: l.Paused}
	if known && !l.Notable(was) {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for c := range p.topics.Matching(l.Name) {
		driver.Notify(c, l)
	}
}
