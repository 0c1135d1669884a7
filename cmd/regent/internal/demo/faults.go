package demo

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"syscall"
	"time"

	api "github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

// hang is how long the store takes no writes: longer than a lease.
const hang = 8 * time.Second

// fault is something that the demo does to the cluster.
type fault struct {
	key    byte
	id     string // in the address of its button
	name   string // beside its key
	button string // what its button on the page says
	text   string // what happens
	onKey  bool   // it is no part of the tour
	play   func(context.Context) error
}

// faults are all faults, in the order of the tour.
func (c *cluster) faults() []fault {
	all := []fault{
		{key: 'k', id: "kill", name: "kill -9", button: "Kill the leader (kill -9)", play: c.kill,
			text: "The leader is killed with kill -9. Its lease would last 6 s; its reaper, a companion process, " +
				"releases it at once."},
		{key: 'h', id: "handoff", name: "hand over", button: "Hand over", play: c.handOver,
			text: "The leader is asked to hand over: it stops its work, releases the election, and its successor " +
				"claims it."},
		{key: 'f', id: "freeze", name: "freeze", button: "Freeze the leader", play: c.freeze,
			text: "The leader is frozen (SIGSTOP). Nobody may lead before its deadline has passed; then the reaper " +
				"kills it, and another leads."},
		{key: 's', id: "hang", name: "hang the store", button: "Hang the store", play: c.hangStore,
			text: "The store takes no writes for 8 s. The leader stops its work at its deadline, and nobody leads. " +
				"No node dies."},
	}
	if c.nodes[0].cut != nil {
		all = append(all, fault{key: 'c', id: "cut", name: "cut off", button: "Cut the leader off", play: c.cutOff,
			text: "The leader is cut off from the store. It stops its work at its deadline, before anybody else " +
				"may lead."})
	}

	return append(all,
		fault{key: 'p', id: "pause", name: "pause", button: "Pause", onKey: true,
			text: "The leader goes on leading; if it stops, nobody claims the election until it is resumed.",
			play: c.verb(api.Pause, "paused: nobody claims the election until it is resumed")},
		fault{key: 'r', id: "resume", name: "resume", button: "Resume", onKey: true,
			text: "The election can be claimed again.", play: c.verb(api.Resume, "resumed")})
}

func (c *cluster) kill(ctx context.Context) error {
	p, epoch, err := c.leading(ctx)
	if err != nil {
		return err
	}

	c.screen.say("kill -9 %s (pid %d)", p.name, p.cmd.Process.Pid)
	at := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	c.restart(ctx, p)
	return c.takeover(ctx, epoch, at)
}

func (c *cluster) freeze(ctx context.Context) error {
	p, epoch, err := c.leading(ctx)
	if err != nil {
		return err
	}

	c.screen.say("kill -STOP %s (pid %d)", p.name, p.cmd.Process.Pid)
	at := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	c.restart(ctx, p)
	return c.takeover(ctx, epoch, at)
}

func (c *cluster) handOver(ctx context.Context) error {
	p, epoch, err := c.leading(ctx)
	if err != nil {
		return err
	}

	to := ""
	c.mu.Lock()
	for _, n := range c.nodes {
		if !n.worker && n.state == "standby" {
			to = n.name
		}
	}
	c.mu.Unlock()
	if to == "" {
		return fmt.Errorf("nobody stands by whom %s could hand over to", p.name)
	}

	c.screen.say("regent handoff %s --to %s --addr %s", election, to, p.addr)
	at := time.Now()
	if err := c.at(p).Do(ctx, api.HandOff, election, epoch, to); err != nil {
		return err
	}
	return c.takeover(ctx, epoch, at)
}

// verb asks the leader for something that changes no leader.
func (c *cluster) verb(v api.Verb, done string) func(context.Context) error {
	return func(ctx context.Context) error {
		c.mu.Lock()
		epoch := c.epoch
		c.mu.Unlock()
		c.screen.say("regent %s %s --addr %s", v, election, c.nodes[3].addr)
		if err := c.at(c.nodes[3]).Do(ctx, v, election, epoch, ""); err != nil {
			return err
		}
		c.screen.say("%s", done)
		return nil
	}
}

func (c *cluster) hangStore(ctx context.Context) error {
	p, epoch, err := c.leading(ctx)
	if err != nil {
		return err
	}

	c.screen.say("the store takes no writes from now on; %s leads", p.name)
	at := time.Now()
	if err := c.lock.hold(ctx); err != nil {
		return err
	}
	defer c.lock.release()

	err = c.await(ctx, "the end of the term", func() bool { return c.leader == "" || c.epoch > epoch })
	if err != nil {
		return err
	}
	c.screen.report("%s has stopped its work: %s later; nobody leads", p.name, milliseconds(time.Since(at)))

	select {
	case <-time.After(hang - time.Since(at)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.lock.release()
	c.screen.say("the store takes writes again")
	return c.takeover(ctx, epoch, time.Now())
}

// cutOff cuts the leader off from the store until another leads.
func (c *cluster) cutOff(ctx context.Context) error {
	p, epoch, err := c.leading(ctx)
	if err != nil {
		return err
	}

	c.screen.say("%s is cut off from the store", p.name)
	at := time.Now()
	p.cut.shut()
	defer p.cut.open()
	if err := c.takeover(ctx, epoch, at); err != nil {
		return err
	}
	p.cut.open()
	c.screen.say("%s reaches the store again, and stands by", p.name)
	return nil
}

// locker makes a store hang.
type locker interface {
	hold(context.Context) error
	release()
}

// wayLock makes a store hang for every process: nothing passes on its way there, and no connection ends.
type wayLock struct{ nodes []*process }

func (l *wayLock) hold(context.Context) error {
	for _, p := range l.nodes {
		p.cut.hang(true)
	}
	return nil
}

func (l *wayLock) release() {
	for _, p := range l.nodes {
		p.cut.hang(false)
	}
}

// fileLock holds the write lock of a SQLite database, as a process does that is frozen in the middle of a commit.
type fileLock struct {
	path string
	mu   sync.Mutex
	end  func()
}

func (l *fileLock) hold(ctx context.Context) error {
	db, err := sql.Open("sqlite", "file:"+l.path+"?_busy_timeout=10000")
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		_ = db.Close()
		return fmt.Errorf("lock the store: %w", err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	}
	return nil
}

func (l *fileLock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
		l.end = nil
	}
}
