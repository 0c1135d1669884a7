package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent/driver"
)

const (
	// proofInterval is how often a listening connection proves that notifications still arrive.
	proofInterval = 30 * time.Second
	// proofTimeout is how long a notification may take to arrive.
	proofTimeout = 5 * time.Second
	// swallowedPause is how long to wait after notifications were found not to arrive.
	swallowedPause = time.Minute
	maxPause       = 2 * time.Second
	// quietFailures is how many failures in a row to listen are not reported: a server that restarts is no news.
	quietFailures = 5
)

// notifier holds the subscriptions, and sends their notifications. The statement that changes a register notifies, on a
// channel of the register and on the shared channels: see channelOf. The notifier listens on a connection of its own
// while there is a subscription.
type notifier struct {
	s  *Store
	mu sync.Mutex

	topics    driver.Topics
	end       context.CancelFunc // ends the listening; nil if there is no subscription
	listening chan struct{}      // closed when the last listening has ended; nil if there was none
	changed   bool               // topics has changed
	interrupt context.CancelFunc // ends a wait for notifications; nil if nobody waits
}

// Subscribe implements [driver.Notifier] with LISTEN and NOTIFY.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return to.Subscription(ctx, s.notifier.apply)
}

// apply takes in a change of what a subscription follows.
func (p *notifier) apply(change driver.InterestChange, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics.Closed() {
		return
	}

	p.topics.Apply(change, c)
	p.changedLocked()
	switch {
	case p.end == nil && !p.topics.Empty():
		p.listenLocked()
	case p.end != nil && p.topics.Empty():
		p.end()
		p.end = nil
	}
}

// changedLocked has whoever waits for notifications ask for the topics.
func (p *notifier) changedLocked() {
	p.changed = true
	if p.interrupt != nil {
		p.interrupt()
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Close()
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// listenLocked starts to listen, after the listening before has ended.
func (p *notifier) listenLocked() {
	ctx, cancel := context.WithCancel(p.s.ctx)
	before, done := p.listening, make(chan struct{})
	p.end, p.listening = cancel, done
	p.s.goroutines.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		p.listen(ctx)
	})
}

// listen connects again and again until ctx ends.
func (p *notifier) listen(ctx context.Context) {
	var last string // what was reported, so that it is reported once
	for failed := 0; ctx.Err() == nil; failed++ {
		began := time.Now()
		err := p.receive(ctx, func() { last = "" })
		if ctx.Err() != nil {
			return
		}

		wait := min(time.Duration(failed)*50*time.Millisecond, maxPause)
		if time.Since(began) > time.Minute {
			failed = 0
		}

		var swallowed *swallowedError
		report := ""
		switch {
		case errors.As(err, &swallowed):
			report = swallowed.Error()
			wait = swallowedPause
		case failed >= quietFailures:
			report = fmt.Sprintf("%s: cannot listen for notifications: %v; changes are found by polling",
				p.s.location, err)
		}
		if report != "" && report != last {
			last = report
			p.s.opts.OnWarning(report)
		}

		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// swallowedError means that a connection listens, and that what is sent does not arrive there.
type swallowedError struct{ text string }

func (e *swallowedError) Error() string { return e.text }

// receive listens on one connection until it fails. proved is called when notifications have been shown to arrive.
func (p *notifier) receive(ctx context.Context, proved func()) error {
	cfg, err := p.s.db.listener(ctx)
	if err != nil {
		return err
	}
	if cfg == nil {
		return &swallowedError{"notifications need pgx's driver for database/sql: changes are found by polling"}
	}

	cfg = cfg.Copy()
	cfg.OnNotification = nil
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye)
	}()

	defer p.lostAll()
	if err := p.follow(ctx, conn, p.s.proofChannel()); err != nil {
		return err
	}

	for {
		if err := p.prove(ctx, conn); err != nil {
			return err
		}
		proved()

		for end := time.Now().Add(proofInterval); time.Now().Before(end); {
			if err := p.follow(ctx, conn); err != nil {
				return err
			}

			got, err := p.wait(ctx, conn, time.Until(end))
			if err != nil {
				return err
			}
			if got != "" {
				p.publish(got)
			}
		}
	}
}

// follow listens on the channels of what is followed, and on more.
func (p *notifier) follow(ctx context.Context, conn *pgx.Conn, more ...string) error {
	p.mu.Lock()
	p.changed = false
	listen, unlisten := p.topics.Next()
	p.mu.Unlock()

	var b strings.Builder
	for _, channel := range more {
		b.WriteString("LISTEN " + pgx.Identifier{channel}.Sanitize() + ";")
	}
	for _, t := range listen {
		b.WriteString("LISTEN " + pgx.Identifier{p.s.channelOf(t)}.Sanitize() + ";")
	}
	for _, t := range unlisten {
		b.WriteString("UNLISTEN " + pgx.Identifier{p.s.channelOf(t)}.Sanitize() + ";")
	}

	if b.Len() == 0 {
		return nil
	}
	// A server that is gone without a word would be waited for until the system gives up the connection, which takes a
	// quarter of an hour.
	short, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	if _, err := conn.Exec(short, b.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range listen {
		p.topics.Confirmed(t)
		p.changed = true
	}
	return nil
}

func (p *notifier) lostAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.LostAll()
}

// wait returns the next notification, or nothing if none has come in time or if what is followed has changed.
func (p *notifier) wait(ctx context.Context, conn *pgx.Conn, d time.Duration) (string, error) {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()

	p.mu.Lock()
	if p.changed {
		cancel()
	}
	p.interrupt = cancel
	p.mu.Unlock()

	n, err := conn.WaitForNotification(short)

	p.mu.Lock()
	p.interrupt = nil
	p.mu.Unlock()

	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() == nil && short.Err() != nil && !conn.IsClosed():
		return "", nil
	}
	return "", err
}

// proof is the beginning of a notification that a store sends to itself.
const proof = "\n"

// prove sends a notification over another connection, and waits until it arrives on this one. A pooler that gives each
// transaction another connection accepts LISTEN, and delivers nothing.
func (p *notifier) prove(ctx context.Context, conn *pgx.Conn) error {
	want := proof + rand.Text()
	short, cancel := context.WithTimeout(ctx, proofTimeout)
	var ignored string
	err := p.s.db.queryRow(short, p.s.sql.notify, p.s.proofChannel(), want)(&ignored)
	cancel()
	if err != nil {
		return err
	}
	p.s.sent.Add("notify")

	for end := time.Now().Add(proofTimeout); time.Now().Before(end); {
		if err := p.follow(ctx, conn); err != nil {
			return err
		}

		got, err := p.wait(ctx, conn, time.Until(end))
		switch {
		case err != nil:
			return err
		case got == want:
			return nil
		case got != "":
			p.publish(got)
		}
	}

	return &swallowedError{fmt.Sprintf("%s: a notification has not arrived within %v: is there a pooler in "+
		"transaction mode (PgBouncer) in between? Changes are found by polling; connect directly to get notifications",
		p.s.location, proofTimeout)}
}

// publish turns a message into notifications: the name of a register, and optionally its revision and record. Anybody
// who may connect to the database could have sent it. So a record counts only under a revision with its digest, and a
// swap on that revision succeeds only if the register shows the record.
func (p *notifier) publish(message string) {
	if strings.HasPrefix(message, proof) {
		return // of another store, or late
	}

	name, news, _ := strings.Cut(message, "\n")
	if !driver.ValidName(name) {
		return
	}

	l := driver.Record{Name: name}
	if rev, record, ok := strings.Cut(news, "\n"); ok && strings.HasSuffix(rev, "."+digest([]byte(record))) {
		if got, err := driver.ParseRecord(name, rev, []byte(record)); err == nil {
			l = got
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.topics.Matching(name) {
		driver.Notify(c, l)
	}
}
