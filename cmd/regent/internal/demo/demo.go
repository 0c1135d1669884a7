// Package demo runs a real cluster on this machine: three nodes and two workers as processes, on an embedded store or
// one that is named, with polls of a small web server. Faults are played by a tour, by keys, or by buttons on the page,
// and each takeover is measured.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	api "github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/driver"
)

// Options are the choices of whoever starts the demo.
type Options struct {
	Store string        // the address of a store; empty for a new SQLite file
	Open  OpenFunc      // opens a store
	For   time.Duration // ends the demo after that time; 0 for never, or without a terminal at the end of the tour

	In       *os.File
	Out      io.Writer
	Terminal bool // Out is a terminal
	Colour   bool
}

// OpenFunc opens the store at an address.
type OpenFunc = func(ctx context.Context, address string) (driver.Store, error)

// timeout is how long the demo waits for what must happen. A lease is 6 s.
const timeout = time.Minute

// Run runs the demo until its tour is over, its time has passed, a key ends it, or ctx has ended. It leaves nothing
// behind: no process, no file, no register. It uses no register of others.
func Run(ctx context.Context, opts Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if opts.For > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, opts.For)
		defer stop()
	}

	dir, err := os.MkdirTemp(memory(), "regent-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	var own *part
	if opts.Store != "" {
		own, err = openPart(ctx, opts)
		switch {
		case err != nil && errors.Is(context.Cause(ctx), context.Canceled): // by a signal
			return nil
		case err != nil:
			return err
		}
		defer func() { err = errors.Join(err, own.clear()) }()
	}

	s := newScreen(opts)
	c, err := newCluster(dir, own, s)
	if err != nil {
		return err
	}
	defer c.end()

	keys, restore := readKeys(ctx, opts)
	defer restore()
	defer s.end()

	if err := c.begin(ctx); err != nil {
		return ended(ctx, opts, err)
	}

	d := &demo{opts: opts, cluster: c, screen: s, keys: keys, presses: c.front.presses}
	go s.refresh(ctx, c)
	return ended(ctx, opts, d.play(ctx))
}

// memory returns a directory in memory, if the machine has one: a busy disk would cost leaders their leases, and the
// demo is about other faults.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// ended returns nil if the demo was to end: by its time, or by a signal.
func ended(ctx context.Context, opts Options, err error) error {
	switch {
	case errors.Is(err, errQuit):
		return nil
	case opts.For > 0 && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// errQuit means that a key has ended the demo.
var errQuit = errors.New("the demo was ended")

// errKey means that a key or a button was pressed during the tour.
var errKey = errors.New("a key was pressed")

// demo is a demo with a running cluster.
type demo struct {
	opts    Options
	cluster *cluster
	screen  *screen
	keys    <-chan byte
	presses <-chan byte // of buttons on the page, as keys
	pressed byte        // the key or button that ended the tour
}

// play plays the tour, and then what keys and buttons ask for.
func (d *demo) play(ctx context.Context) error {
	err := d.tour(ctx)
	switch {
	case errors.Is(err, errKey):
		d.screen.say("The tour has ended: each fault has its key here, and its button on the page.")
		if err := d.press(ctx, d.pressed); err != nil {
			return err
		}
	case err != nil:
		return err
	case !d.opts.Terminal && d.opts.For == 0:
		return nil
	}

	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case key := <-d.keys:
			if err := d.press(ctx, key); err != nil {
				return err
			}
		case key := <-d.presses:
			if err := d.press(ctx, key); err != nil {
				return err
			}
		}
	}
}

// press does what a key is for.
func (d *demo) press(ctx context.Context, key byte) error {
	if key == 'q' || key == 'Q' {
		return errQuit
	}
	for _, f := range d.cluster.faults() {
		if f.key == key {
			if err := d.perform(ctx, f); err != nil && ctx.Err() == nil {
				d.screen.say("%v", err)
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// perform plays a fault. The page shows meanwhile which one it is.
func (d *demo) perform(ctx context.Context, f fault) error {
	d.screen.said.play(f.id)
	defer d.screen.said.play("")

	return f.play(ctx)
}

// pause waits, and ends early if a key or a button is pressed.
func (d *demo) pause(ctx context.Context, long time.Duration) error {
	if !d.opts.Terminal {
		long = min(long, 300*time.Millisecond)
	}

	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case d.pressed = <-d.keys:
		return errKey
	case d.pressed = <-d.presses:
		return errKey
	case <-time.After(long):
		return nil
	}
}

// tour plays each fault, with a sentence on it. Any key or button ends it.
func (d *demo) tour(ctx context.Context) error {
	const rest = 4 * time.Second
	for _, f := range d.cluster.faults() {
		if f.onKey {
			continue
		}
		if err := d.pause(ctx, rest); err != nil {
			return err
		}

		d.screen.say("")
		d.screen.say("%s", f.text)
		if err := d.pause(ctx, rest/2); err != nil {
			return err
		}
		var refused *api.RefusedError
		switch err := d.perform(ctx, f); {
		case errors.As(err, &refused): // another term has begun meanwhile
			d.screen.say("%v", err)
		case err != nil:
			return err
		}
	}

	if err := d.pause(ctx, rest); err != nil {
		return err
	}
	d.screen.say("")
	d.screen.say("%s", d.cluster.summary())
	if d.opts.Terminal {
		d.screen.say("The cluster goes on: faults have keys here, and buttons on the page. Ctrl-C ends it.")
	}
	return nil
}

func milliseconds(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
