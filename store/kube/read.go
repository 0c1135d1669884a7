package kube

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listPage is how many registers one request of List reads.
const listPage = 500

// Get implements [driver.Store]. The read is linearizable: a request that names no resourceVersion is answered with
// what etcd's majority has.
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	_, l, err := s.get(ctx, name)
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	return l, nil
}

// get returns a Lease and its record.
func (s *Store) get(ctx context.Context, name string) (*coordinationv1.Lease, driver.Record, error) {
	lease := &coordinationv1.Lease{}
	err := s.ask(ctx, "get", s.leases.Get().Name(s.addr.leaseName(name)), lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil, driver.Record{}, driver.ErrNotFound
	case err != nil:
		return nil, driver.Record{}, s.explain(ctx, err)
	}

	l, err := s.addr.decode(lease)
	if err == nil && l.Name != name {
		err = fmt.Errorf("its Lease %s belongs to register %q", lease.Name, l.Name)
	}
	if err != nil {
		return nil, driver.Record{}, fmt.Errorf("%s: %w", s, err)
	}
	return lease, l, nil
}

// List implements [driver.Store] with one request for every 500 registers. It yields the Leases that have Regent's
// labels. A Lease that only other programs have written has none: Get reads it.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		options := &metav1.ListOptions{Limit: listPage, LabelSelector: s.addr.selector(prefix)}
		for {
			page := &coordinationv1.LeaseList{}
			r := s.leases.Get().VersionedParams(options, s.clients.params)
			if err := s.ask(ctx, "list", r, page); err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
				return
			}

			for i := range page.Items {
				l, err := s.addr.decode(&page.Items[i])
				if err != nil {
					err = fmt.Errorf("%s: %w", s, err)
				}
				if strings.HasPrefix(l.Name, prefix) && !yield(l, err) {
					return
				}
			}

			if options.Continue = page.Continue; options.Continue == "" {
				return
			}
		}
	}
}
