// Package kube stores Regent's registers in Kubernetes, as Leases of one namespace: one for each.
//
// What it assumes:
//   - An API server whose etcd keeps what it has accepted. A snapshot that is restored loses what was written since:
//     docs/STORES.md says what that does.
//   - Nobody but Regent and electors of client-go changes the Leases. A Lease that was deleted begins again with
//     epoch 1.
//   - No proxy in front of the API server sends a PATCH again whose answer was lost.
//
// What it does not guarantee:
//   - Progress while no API server answers, or while it answers 429 or 503.
//
// A Lease that an elector of client-go holds is shown as a register that is held, and such an elector respects a Lease
// that Regent holds: see docs/STORES.md.
//
// The shortest program:
//
//	store, err := kube.Open(ctx, os.Getenv("KUBE_ADDRESS"), kube.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The registers, with Kubernetes' own tool:
//
//	kubectl get leases -n my-namespace -l regent.dev/kind
package kube

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/driver"
	"k8s.io/client-go/rest"
)

// Options configures a [Store]. The zero value is usable.
type Options struct {
	// Config is used instead of what the address, the environment and the pod say about the API server.
	Config *rest.Config

	// NoProbe leaves out the check that this user may write, for a process that only reads.
	NoProbe bool

	// OnWarning gets what makes the store slower or less safe, one line each. It may be called at any time, from any
	// goroutine.
	OnWarning func(string)
}

// Store is the Leases of one namespace. It implements [driver.Store], [driver.Notifier], [driver.Remover] and
// [driver.Counter].
type Store struct {
	addr     *address
	warn     func(string)
	config   *rest.Config
	clients  clients
	leases   rest.Interface // for all requests but watches
	hangUp   func()         // closes the idle connections of leases
	sent     driver.RequestCount
	id       uint64        // of this Store; never reused
	stamps   atomic.Uint64 // how many stamps it has made
	notifier notifier

	closed     atomic.Bool
	goroutines sync.WaitGroup
	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
}

var (
	_ driver.Store    = (*Store)(nil)
	_ driver.Notifier = (*Store)(nil)
	_ driver.Remover  = (*Store)(nil)
	_ driver.Counter  = (*Store)(nil)
)

// Open connects to an API server:
//
//	kube://NAMESPACE[?kubeconfig=FILE&context=NAME&prefix=PREFIX]
//
// Without the key kubeconfig, a process in a pod uses the pod's service account. Outside of a pod KUBECONFIG and
// ~/.kube/config are read, as kubectl does. See docs/STORES.md.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	a, err := parseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(addr), driver.Refused(err))
	}
	config, err := a.config(opts.Config)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", a, driver.Refused(err))
	}

	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	s := &Store{addr: a, config: config, id: binary.LittleEndian.Uint64(id[:]), warn: opts.OnWarning}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))

	if err = s.connect(ctx, opts.NoProbe); err == nil {
		return s, nil
	}
	_ = s.Close()
	return nil, fmt.Errorf("open store %w", err)
}

// Close implements [driver.Store].
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}

	s.cancel()
	s.notifier.stop()
	s.goroutines.Wait()
	if s.hangUp != nil {
		s.hangUp()
	}
	return nil
}

// Requests implements [driver.Counter]: requests by their verbs, as the log of an API server names them.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }

// String returns the address without the keys that concern this process alone.
func (s *Store) String() string { return s.addr.String() }
