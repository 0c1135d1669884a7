package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// notifier holds the subscriptions. All watches of a store share one stream, which is open while there is a
// subscription.
//
// The client's own Watcher is not used. After a reconnect it asks for what has happened since the last revision that it
// has seen. In a cluster that was restored from a snapshot that revision is in the future, and the watch would be
// silent until the cluster has reached it. Here every stream begins with what comes next, and every subscriber reads.
type notifier struct {
	s  *Store
	mu sync.Mutex

	topics  map[interest]*topic
	watches map[int64]*topic // on the current stream, by the number of the watch
	ended   []int64          // watches that nobody needs any more
	number  int64            // of the last watch; never reused
	changed chan struct{}    // receives when there are watches to begin or to end
	started bool             // listen runs; it ends with the store
	warned  bool             // that this user may not watch
	closed  bool
}

// interest is one register by its name, or all registers whose names begin with a prefix.
type interest struct {
	text   string
	prefix bool
}

// topic is what subscribers with one interest have in common.
type topic struct {
	interest
	subscribers map[chan driver.Record]bool
	last        map[string]driver.Record // what decides whether a change is notable, by register
	watch       int64                    // 0 if there is none on the current stream
}

func (p *notifier) init(s *Store) {
	p.s = s
	p.topics = map[interest]*topic{}
	p.watches = map[int64]*topic{}
	p.changed = make(chan struct{}, 1)
}

// Subscribe implements [driver.Notifier] with a watch for each register that is followed by its name, and for each
// prefix. Nothing else is sent to this client.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return to.Subscription(ctx, s.notifier.apply)
}

// apply takes in a change of what a subscription follows.
func (p *notifier) apply(change driver.InterestChange, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}

	do := p.addLocked
	if change.Gone {
		do = p.removeLocked
	}
	for _, name := range change.Names {
		do(interest{text: name}, c)
	}
	for _, prefix := range change.Prefixes {
		do(interest{text: prefix, prefix: true}, c)
	}

	p.wake()
	if !p.started && len(p.topics) > 0 {
		p.started = true
		p.s.goroutines.Go(func() { p.listen(p.s.ctx) })
	}
}

func (p *notifier) addLocked(to interest, c chan driver.Record) {
	t := p.topics[to]
	if t == nil {
		t = &topic{interest: to, subscribers: map[chan driver.Record]bool{}}
		p.topics[to] = t
	}
	t.subscribers[c] = true
}

func (p *notifier) removeLocked(to interest, c chan driver.Record) {
	t := p.topics[to]
	if t == nil {
		return
	}

	delete(t.subscribers, c)
	if len(t.subscribers) > 0 {
		return
	}
	delete(p.topics, to)
	if t.watch != 0 {
		delete(p.watches, t.watch)
		p.ended = append(p.ended, t.watch)
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	clear(p.topics)
}

// idle reports whether there is no subscription.
func (p *notifier) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.topics) == 0
}

// wake makes send begin and end watches.
func (p *notifier) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// listen opens a stream again and again until ctx ends, while there are subscriptions.
func (p *notifier) listen(ctx context.Context) {
	for failed := 0; ctx.Err() == nil; failed++ {
		if p.idle() {
			select {
			case <-p.changed:
			case <-ctx.Done():
			}
			failed = -1
			continue
		}

		at, moved := p.s.current()
		err := p.receive(ctx, moved, func() { failed = 0 })
		if ctx.Err() != nil {
			return
		}
		if away(err) {
			p.s.move(at)
		}
		t := time.NewTimer(min(time.Duration(failed)*50*time.Millisecond, maxPause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// receive watches over one stream until it fails, or another member is asked. began is called for every watch that has
// begun.
func (p *notifier) receive(ctx context.Context, moved <-chan struct{}, began func()) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.s.openWatches(ctx)
	if err != nil {
		cancel()
		return err
	}

	p.forget()
	var sending sync.WaitGroup
	sending.Go(func() {
		defer cancel()
		p.send(ctx, stream, moved)
	})
	defer sending.Wait()
	defer cancel()

	for {
		r, err := stream.Recv()
		if err != nil {
			return rpctypes.Error(err)
		}
		if r.Created && !r.Canceled {
			began()
		}
		if err := p.handle(r); err != nil {
			return err
		}
	}
}

// forget forgets the watches of the stream before.
func (p *notifier) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.watches)
	p.ended = nil
	for _, t := range p.topics {
		t.watch = 0
	}
}

// send begins and ends watches until there is no subscription, ctx ends, or another member is asked.
func (p *notifier) send(ctx context.Context, stream pb.Watch_WatchClient, moved <-chan struct{}) {
	for !p.idle() {
		for _, r := range p.requests() {
			p.s.sent.Add("watch")
			if stream.Send(r) != nil {
				return // Recv returns why
			}
		}

		select {
		case <-p.changed:
		case <-moved:
			return
		case <-ctx.Done():
			return
		}
	}
}

// requests returns what makes the watches of the stream those that subscribers need.
func (p *notifier) requests() (all []*pb.WatchRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.topics {
		if t.watch == 0 {
			p.number++
			t.watch = p.number
			t.last = map[string]driver.Record{}
			p.watches[t.watch] = t
			all = append(all, p.s.beginWatch(t))
		}
	}

	for _, number := range p.ended {
		all = append(all, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
			CancelRequest: &pb.WatchCancelRequest{WatchId: number}}})
	}
	p.ended = nil
	return all
}

// beginWatch returns the request for a watch of all that comes next. Large answers come in pieces, each with whole
// events.
func (s *Store) beginWatch(t *topic) *pb.WatchRequest {
	r := &pb.WatchCreateRequest{
		Key: []byte(s.key(t.text)), WatchId: t.watch, Fragment: true,
		Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE},
	}
	if t.prefix {
		r.RangeEnd = []byte(clientv3.GetPrefixRangeEnd(s.key(t.text)))
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// handle turns an answer into notifications. It returns an error if the stream must be opened again: if one watch was
// so far behind that etcd has compacted what it should show next, or if the log-in of the stream has expired, so that
// the server refuses further watches. Such a refusal does not name the watch.
func (p *notifier) handle(r *pb.WatchResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.watches[r.WatchId]
	refused := r.Canceled && r.Created
	switch {
	case t == nil && !refused:
		return nil // it was ended
	case r.Canceled:
		return p.cancelledLocked(r.CancelReason)
	case r.Created:
		t.begun()
	}

	for _, e := range r.Events {
		t.publish(strings.TrimPrefix(string(e.Kv.Key), p.s.addr.prefix), e.Kv)
	}
	return nil
}

// cancelledLocked returns why a server has ended a watch. The stream goes on without a watch for which this user has no
// permission: to open it again would not help, and would wake the subscribers of all others.
func (p *notifier) cancelledLocked(reason string) error {
	if !strings.Contains(reason, rpctypes.ErrPermissionDenied.Error()) {
		return errors.New(reason)
	}
	if !p.warned {
		p.warned = true
		p.s.warn(fmt.Sprintf("%s: some changes are found by polling alone: watch: %v", p.s,
			advise(rpctypes.ErrPermissionDenied)))
	}
	return nil
}

// publish notifies of a change, if it is notable.
func (t *topic) publish(name string, kv *mvccpb.KeyValue) {
	l, err := decode(name, kv)
	if err != nil {
		l = driver.Record{Name: name}
	}

	last, known := t.last[name]
	t.last[name] = driver.Record{Holder: l.Holder, Epoch: l.Epoch, Next: l.Next, Paused: l.Paused}
	if !known || l.Notable(last) {
		t.notify(l)
	}
}

// begun notifies of what may have changed before the watch began.
func (t *topic) begun() {
	if t.prefix {
		t.notify(driver.Record{})
	} else {
		t.notify(driver.Record{Name: t.text})
	}
}

func (t *topic) notify(l driver.Record) {
	for c := range t.subscribers {
		driver.Notify(c, l)
	}
}
