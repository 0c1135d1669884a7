//go:build embedded

package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/etcd/embedded"
)

// localMember is the etcd member in this process. A nil one is that of a process whose store is elsewhere.
type localMember struct {
	config *embedded.Config
	log    *slog.Logger
	failed chan error

	mu     sync.Mutex
	member *embedded.Member // nil until it has started
	closed bool
}

// newLocalMember returns the member of a node, which is started when the store is opened. It is nil if the store is no
// embedded one.
func newLocalMember(s *config.Settings, log *slog.Logger) (*localMember, error) {
	if !strings.HasPrefix(s.Store, embedded.Scheme) {
		return nil, nil
	}
	c, err := embedded.Parse(s.Store, s.Node)
	if err != nil {
		return nil, err
	}
	return &localMember{config: c, log: log, failed: make(chan error, 1)}, c.MustRun()
}

// start starts the member, unless it runs.
func (m *localMember) start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return driver.ErrClosed
	case m.member != nil:
		return nil
	}

	member, err := embedded.Start(ctx, m.config, embedded.Options{Log: m.log})
	if err != nil {
		return err
	}
	m.member = member
	go func() {
		select {
		case err := <-member.Failed():
			m.failed <- err
		case <-member.Closed():
		}
	}()
	return nil
}

// reaperStore returns the store for the reaper. If the node dies, its member dies with it, so the reaper is a client of
// the others.
func (m *localMember) reaperStore(s *config.Settings) string {
	if m == nil {
		return s.Store
	}
	return m.config.OthersAddress()
}

// Failed returns a channel that gets an error if the member stops by itself.
func (m *localMember) Failed() <-chan error {
	if m == nil {
		return nil
	}
	return m.failed
}

// Close stops the member.
func (m *localMember) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.member != nil {
		m.member.Close()
	}
}

func validateEmbedded(s *config.Settings) error {
	_, err := embedded.Parse(s.Store, s.Node)
	return err
}

// openEmbedded opens the store as a client. 'regent serve' runs a member before.
func openEmbedded(ctx context.Context, address string, use storeUse, warn func(string)) (driver.Store, error) {
	var c *embedded.Config
	if use.member != nil {
		c = use.member.config
		if err := use.member.start(ctx); err != nil {
			return nil, err
		}
	} else {
		parsed, err := embedded.Parse(address, "")
		if err != nil {
			return nil, err
		}
		c = parsed
	}

	opts := etcd.Options{NoProbe: use.unchecked, OnWarning: warn, InOrder: use.member != nil}
	store, err := etcd.Open(ctx, c.ClientAddress(), opts)
	if err != nil {
		return nil, err
	}
	return store, nil
}
