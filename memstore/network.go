package memstore

import (
	"context"
	"time"

	"github.com/regentd/regent/driver"
)

// send notes a request, or says why it cannot be sent. A request whose context has ended is not
// sent.
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

// perfect reports whether nothing can go wrong, now, between the client and the store.
func (c *Client) perfect() bool {
	return c.current.Load() == nil && c.store.current.Load() == nil && !c.Hangs() && !c.store.Hangs()
}

// faults returns all that can go wrong, now.
func (c *Client) faults() Faults { return c.Faults().plus(c.store.Faults()) }

// dice throws for the client's next request of this kind to this register.
func (c *Client) dice(f Faults, k Kind, name string) dice {
	key := seenKey{k, name}
	c.mu.Lock()
	if c.seen == nil {
		c.seen = map[seenKey]uint64{}
	}
	n := c.seen[key]
	c.seen[key] = n + 1
	c.mu.Unlock()
	return throw(f.Seed, fingerprint(0, c.name), fingerprint(k, name), n)
}

// answer is what the store says to a request.
type answer[T any] struct {
	value T
	err   error
}

// carry takes a request over a faulty network. Do is what the store does when the request arrives,
// at most once, and perhaps after carry has returned: what was sent is not called back when its
// sender gives up. Each way meets the faults that are set when it begins.
func carry[T any](ctx context.Context, c *Client, k Kind, name string, do func(Faults, dice) T) (T, error) {
	var none T
	f := c.faults()
	d := c.dice(f, k, name)
	if f.CutRequests || d.loseRequest < f.LoseRequest {
		return none, c.silence(ctx, f, d)
	}

	answers := make(chan answer[T], 1)
	arrive := func() {
		c.deliver(func() {
			var a answer[T]
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
		return none, c.silence(ctx, f, d)
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
		return none, c.silence(ctx, f, d)
	case a.err != nil:
		return none, a.err
	}

	f = c.faults()
	if f.CutAnswers || d.loseAnswer < f.LoseAnswer {
		return none, c.silence(ctx, f, d)
	}
	if err := c.wait(ctx, f.Answer.at(d.answer)); err != nil {
		return none, err
	}
	return a.value, nil
}

// swapOne carries out one swap of a batch that has arrived.
func (c *Client) swapOne(l driver.Record, f Faults) (o driver.Outcome) {
	d := c.dice(f, inBatch, l.Name)
	switch {
	case d.loseRequest < f.LoseRequest:
		o.Err = ErrLost
	case d.apply < f.ApplyLate:
		time.AfterFunc(f.Late.at(d.late), func() {
			c.deliver(func() {
				if !c.faults().Outage {
					c.store.swap(l, c.name)
				}
			}, func() {})
		})
		o.Err = ErrLost
	case d.clash < f.Conflict:
		o.Err = driver.ErrConflict
	default:
		o.Record, o.Err = c.store.swap(l, c.name)
		if d.loseAnswer < f.LoseAnswer {
			o = driver.Outcome{Err: ErrLost}
		}
	}
	return o
}

// wait lets d pass, unless the call or the client ends before.
func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	_, _, err := await(ctx, c, t.C)
	return err
}

// silence is what the caller of a request without an answer gets.
func (c *Client) silence(ctx context.Context, f Faults, d dice) error {
	if f.Timeout.zero() {
		_, _, err := await[struct{}](ctx, c, nil)
		return err
	}
	if err := c.wait(ctx, f.Timeout.at(d.timeout)); err != nil {
		return err
	}
	return ErrLost
}

// await returns what comes over a channel, and false if it was closed; or an error if the call or
// the client ends before.
func await[T any](ctx context.Context, c *Client, from <-chan T) (v T, ok bool, err error) {
	select {
	case v, ok = <-from: // what is there counts, whatever has ended
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

// linger keeps a call that should return, for as long as the faults say.
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
