package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Swap implements [driver.Store] with one request: the creation of a Lease, or a JSON patch that first tests what it
// replaces. A patch leaves alone what others keep on the Lease: labels, annotations, owners.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	conflict := fmt.Errorf("swap %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	old, ok := parseRevision(l.Rev)
	if l.Rev != "" && !ok {
		return driver.Record{}, s.refuse(ctx, l.Name, conflict)
	}

	renewed := time.Now().UnixMicro()
	if l.Rev != "" && old.nonce == l.Nonce {
		renewed = old.renewed // an edit renews nothing
	}
	stamp := s.newStamp()
	text, err := s.addr.encode(l, renewed)
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err)
	}

	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.addr.leaseName(l.Name), Namespace: s.addr.namespace,
			Annotations: map[string]string{recordKey: text, revKey: stamp},
			Labels:      map[string]string{prefixKey: s.addr.prefix, kindKey: kindOf(l.Name)},
		},
		Spec: specOf(l, renewed),
	}
	written := &coordinationv1.Lease{}
	if l.Rev == "" {
		err = s.create(ctx, lease, written)
	} else {
		err = s.patch(ctx, old, lease, written)
	}

	switch {
	case err != nil && refusedSwap(err):
		return driver.Record{}, conflict
	case err != nil:
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, s.explain(ctx, err))
	}
	l.Rev = revisionOf(written, l.Nonce).String()
	return l, nil
}

// refuse returns the outcome of a swap on a revision that no register has, which needs no request: but the register
// must be one that can be read, and the store open.
func (s *Store) refuse(ctx context.Context, name string, conflict error) error {
	if _, err := s.Get(ctx, name); err != nil && !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	return conflict
}

func (s *Store) create(ctx context.Context, lease, written *coordinationv1.Lease) error {
	options := &metav1.CreateOptions{FieldManager: manager}
	r := s.leases.Post().VersionedParams(options, s.clients.params).Body(lease)
	return s.ask(ctx, "create", r, written)
}

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch changes a Lease that still has the revision old.
func (s *Store) patch(ctx context.Context, old revision, lease, written *coordinationv1.Lease) error {
	body, err := json.Marshal(append(old.tests(), changes(old, lease)...))
	if err != nil {
		return err
	}
	options := &metav1.PatchOptions{FieldManager: manager}
	r := s.leases.Patch(types.JSONPatchType).Name(lease.Name).VersionedParams(options, s.clients.params).Body(body)
	return s.ask(ctx, "patch", r, written)
}

// tests returns what must hold for a Lease to have a revision. The resourceVersion alone would do, but for an etcd that
// was restored from a snapshot: it counts on from there, and another write may get the same number. No stamp comes
// twice. A Lease without a stamp is compared by what its holder renews.
func (r revision) tests() []operation {
	tests := []operation{
		{"test", "/metadata/uid", r.uid},
		{"test", "/metadata/resourceVersion", r.version},
	}
	if r.stamp != "" {
		tests = append(tests, operation{"test", annotationPath(revKey), r.stamp})
	} else if r.renewed != 0 {
		at := metav1.NewMicroTime(time.UnixMicro(r.renewed).UTC())
		tests = append(tests, operation{"test", "/spec/renewTime", at})
	}
	return tests
}

// changes returns what makes a Lease of a revision say what lease says.
func changes(old revision, lease *coordinationv1.Lease) []operation {
	spec := lease.Spec
	all := []operation{
		{"add", "/spec/holderIdentity", spec.HolderIdentity},
		{"add", "/spec/leaseDurationSeconds", spec.LeaseDurationSeconds},
		{"add", "/spec/leaseTransitions", spec.LeaseTransitions},
		{"add", "/spec/acquireTime", spec.AcquireTime},
		{"add", "/spec/renewTime", spec.RenewTime},
	}
	if strings.Contains(old.bare, "a") {
		all = append(all, operation{"add", "/metadata/annotations", struct{}{}})
	}
	if strings.Contains(old.bare, "l") {
		all = append(all, operation{"add", "/metadata/labels", struct{}{}})
	}
	for key, text := range lease.Annotations {
		all = append(all, operation{"add", annotationPath(key), text})
	}
	for key, text := range lease.Labels {
		all = append(all, operation{"add", "/metadata/labels/" + escapePointer(key), text})
	}
	return all
}

// annotationPath returns where an annotation is.
func annotationPath(key string) string { return "/metadata/annotations/" + escapePointer(key) }

// escapePointer escapes a part of a JSON pointer (RFC 6901).
func escapePointer(key string) string { return strings.ReplaceAll(key, "/", "~1") }

// Remove implements [driver.Remover]: a read that shows whether anybody holds the register, and a delete on the
// revision that was read. A register that is written again gets another stamp.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	refused := fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	lease, now, err := s.get(ctx, l.Name)
	if errors.Is(err, driver.ErrNotFound) || err == nil && (now.Rev != l.Rev || !now.Vacant()) {
		return refused
	}
	if err == nil && len(lease.Finalizers) > 0 {
		err = fmt.Errorf("%s: Lease %s has finalizers, so it would stay: %v", s, lease.Name, lease.Finalizers)
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", l.Name, err)
	}

	options := &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	}
	err = s.ask(ctx, "delete", s.leases.Delete().Name(lease.Name).Body(options), nil)
	if refusedSwap(err) {
		return refused
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", l.Name, s.explain(ctx, err))
	}
	return nil
}
