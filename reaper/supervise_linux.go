package reaper

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// supervise keeps one companion running until the Reaper is closed.
func (r *Reaper) supervise(c *child) {
	defer close(r.done)
	defer r.pidfd.Close()

	for wait := restartFirst; ; wait = min(2*wait, restartMax) {
		began := time.Now()
		var err error
		if c == nil {
			c, err = r.spawn()
		}

		if c != nil {
			err = r.tend(c)
			c = nil
		}

		select {
		case <-r.closed:
			return
		default:
		}

		r.opts.Log.Warn("reaper has ended: starting another", "error", err)
		if time.Since(began) > restartReset {
			wait = restartFirst
		}

		select {
		case <-time.After(wait):
		case <-r.closed:
			return
		}
	}
}

// spawn starts a companion process, and makes the whole state pending for it.
func (r *Reaper) spawn() (*child, error) {
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()

	cmd := exec.Command("/proc/self/exe", Command) // this program, even if its file was replaced
	cmd.Args[0] = os.Args[0]
	cmd.Stdin = in
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{r.pidfd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of the terminal do not reach it

	if err := cmd.Start(); err != nil {
		pipe.Close()
		return nil, err
	}

	c := &child{cmd: cmd, pipe: pipe, gone: make(chan struct{})}
	go func() {
		defer close(c.gone)
		c.err = cmd.Wait()
	}()

	r.mu.Lock()
	defer r.mu.Unlock()

	r.child = c
	r.pending = newPending()
	for register := range r.state.lines {
		r.pending.lines[register] = true
	}

	for mark := range r.state.trees {
		r.pending.trees[mark] = true
	}

	r.pending.bye = r.closing
	return c, nil
}

// tend writes to a companion process until it has ended.
func (r *Reaper) tend(c *child) error {
	stop := make(chan struct{})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		r.feed(c, stop)
	}()

	select {
	case <-c.gone:
	case <-r.closed:
		select {
		case <-c.gone:
		case <-time.After(companionTimeout): // it is stopped or stuck, and nothing depends on it
			_ = c.cmd.Process.Kill()
			<-c.gone
		}
	}

	r.mu.Lock()
	r.child = nil
	r.mu.Unlock()

	close(stop)
	c.pipe.Close() // ends a write that is stuck
	<-fed

	return c.err
}

// feed writes what is pending, in one piece, and then what was added meanwhile.
func (r *Reaper) feed(c *child, stop <-chan struct{}) {
	out := message{Hello: &hello{Store: r.opts.Store, PID: os.Getpid(), Adopter: r.opts.Adopter}}.encode(nil)
	for {
		changes, upto := r.changes()
		for _, m := range changes {
			out = m.encode(out)
		}

		if len(out) > 0 {
			if _, err := c.pipe.Write(out); err != nil {
				if !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EPIPE) {
					r.opts.Log.Warn("cannot write to the reaper: replacing it", "error", err)
				}
				_ = c.cmd.Process.Kill() // the next companion gets the whole state
				return
			}
			out = out[:0]
		}

		r.mu.Lock()
		r.written = max(r.written, upto)
		close(r.wrote)
		r.wrote = make(chan struct{})
		r.mu.Unlock()

		select {
		case <-r.kick:
		case <-stop:
			return
		}
	}
}

// changes returns the messages that are pending, the last one of all at the end, and up to which request they are.
func (r *Reaper) changes() ([]message, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	var all []message
	for register := range r.pending.lines {
		all = append(all, r.state.line(register))
	}

	for mark := range r.pending.trees {
		all = append(all, r.state.tree(mark))
	}

	if r.pending.bye {
		all = append(all, message{Bye: true})
	}

	r.pending = newPending()
	return all, r.asked
}
