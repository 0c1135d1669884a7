package memstore

import (
	"context"
	"time"

	"github.com/regentd/regent/driver"
)

// send counts a request, or returns why it cannot be sent. A request whose context has ended is not sent.
func (c *Client) send(ctx context.Context, k Kind, name string) error {
	if c.closed.Load() || c.store.closed.Load() {
		return driver.ErrClosed
	}

	if err := ctx.Err(); err != nil {
		return err
	}

	c.count(k)
	c.store.count(k)
	if on := c.store.OnRequest; on != nil {
		on(Request{Client: c.name, Kind: k, Name: name, At: time.Now()})
	}
	return nil
}

// perfect reports whether there are no faults between the client and the store now.
func (c *Client) perfect() bool {
	return c.current.Load() == nil && c.store.current.Load() == nil && !c.Hangs() && !c.store.Hangs()
}

// faults returns the current faults of the client and the store.
func (c *Client) faults() Faults { return c.Faults().plus(c.store.Faults()) }

// draws draws the random numbers of the client's next request of this kind to this register.
func (c *Client) draws(f Faults, k Kind, name string) draws {
	key := seenKey{k, name}
	c.mu.Lock()
	if c.seen == nil {
		c.seen = map[seenKey]uint64{}
	}

	n := c.seen[key]
	c.seen[key] = n + 1
	c.mu.Unlock()

	return draw(f.Seed, fingerprint(0, c.name), fingerprint(k, name), n)
}

// response is the store's answer to a request.
type response[T any] struct {
	value T
	err   error
}

// transmit sends a request over a faulty network. do executes the request when it arrives, at most once, and perhaps
// after transmit has returned: a request is not recalled when its sender gives up. Request and answer each have the
// faults that are set when they are sent.
func transmit[T any](ctx context.Context, c *Client, k Kind, name string, do func(Faults, draws) T) (T, error) {
	var none T
	f := c.faults()
	d := c.draws(f, k, name)
	if f.CutRequests || d.loseRequest < f.LoseRequest {
		return none, c.awaitTimeout(ctx, f, d)
	}

	answers := make(chan response[T], 1)
	arrive := func() {
		c.deliver(func() {
			var a response[T]
			if c.faults().Outage {
				a.err = ErrOutage
			} else {
				a.value = do(f, d)
			}
			answers <- a
		}, func() { close(answers) })
	}

	way := f.Request.at(d.request)
	if k.writes() && d.apply < f.ApplyLate {
		time.AfterFunc(way+f.Late.at(d.late), arrive)
		return none, c.awaitTimeout(ctx, f, d)
	}

	sent := time.Now()
	if err := c.wait(ctx, way); err != nil {
		if k.writes() {
			time.AfterFunc(way-time.Since(sent), arrive)
		}
		return none, err
	}

	arrive()

	a, arrived, err := await(ctx, c, answers)
	switch {
	case err != nil:
		return none, err
	case !arrived:
		return none, c.awaitTimeout(ctx, f, d)
	case a.err != nil:
		return none, a.err
	}

	f = c.faults()
	if f.CutAnswers || d.loseAnswer < f.LoseAnswer {
		return none, c.awaitTimeout(ctx, f, d)
	}

	if err := c.wait(ctx, f.Answer.at(d.answer)); err != nil {
		return none, err
	}
	return a.value, nil
}

// swapOne executes one swap of a batch that has arrived.
func (c *Client) swapOne(l driver.Record, f Faults) (o driver.Outcome) {
	d := c.draws(f, inBatch, l.Name)
	switch {
	case d.loseRequest < f.LoseRequest:
		o.Err = ErrNoAnswer
	case d.apply < f.ApplyLate:
		time.AfterFunc(f.Late.at(d.late), func() {
			c.deliver(func() {
				if !c.faults().Outage {
					c.store.swap(l, c.name)
				}
			}, func() {})
		})
		o.Err = ErrNoAnswer
	case d.clash < f.Conflict:
		o.Err = driver.ErrConflict
	default:
		o.Record, o.Err = c.store.swap(l, c.name)
		if d.loseAnswer < f.LoseAnswer {
			o = driver.Outcome{Err: ErrNoAnswer}
		}
	}

	return o
}

// wait waits for d, unless the call or the client ends before.
func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()

	_, _, err := await(ctx, c, t.C)
	return err
}

// awaitTimeout returns the error of a call whose request or answer was lost, when its timeout has passed.
func (c *Client) awaitTimeout(ctx context.Context, f Faults, d draws) error {
	if f.Timeout.zero() {
		_, _, err := await[struct{}](ctx, c, nil)
		return err
	}
	if err := c.wait(ctx, f.Timeout.at(d.timeout)); err != nil {
		return err
	}
	return ErrNoAnswer
}

// await returns what a channel delivers, and false if it was closed. It returns an error if the call or the client ends
// before.
func await[T any](ctx context.Context, c *Client, from <-chan T) (v T, ok bool, err error) {
	select {
	case v, ok = <-from: // a value that is there counts, even if the call has ended
		return v, ok, nil
	default:
	}

	select {
	case v, ok = <-from:
		return v, ok, nil
	case <-ctx.Done():
		c.linger()
		return v, false, ctx.Err()
	case <-c.done:
	case <-c.store.done:
	}

	return v, false, driver.ErrClosed
}

// linger delays the return of a call, for as long as the faults say.
func (c *Client) linger() {
	d := c.faults().Linger
	if d <= 0 {
		return
	}

	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
	case <-c.done:
	case <-c.store.done:
	}
}
