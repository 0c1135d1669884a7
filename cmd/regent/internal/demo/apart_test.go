package demo

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// TestNewPart checks that the part of a store is neither that of others nor below it.
func TestNewPart(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"redis://h:1", "redis://h:1?prefix=regent-demo-x%3A"},
		{"rediss://u:p%40@h:1/2?ca=f&prefix=app:", "rediss://u:p%40@h:1/2?ca=f&prefix=app%3Aregent-demo-x%3A"},
		{"postgres://u:p@h:1/d?sslmode=disable", "postgres://u:p@h:1/d?sslmode=disable&table=regent_demo_x"},
		{"postgresql://h:1/d?table=leaders", "postgresql://h:1/d?table=regent_demo_x"},
		{"postgres://h:1/d?table=app.leaders", "postgres://h:1/d?table=app.regent_demo_x"},
		{"etcd://h:1", "etcd://h:1/regent-demo-x"},
		{"etcd://h:1/app/leaders/", "etcd://h:1/app/leaders-demo-x"},
	} {
		p, err := newPart(c.given, "x")
		if err != nil || p.address.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.given, p, err, c.want)
		}
	}

	for _, given := range []string{"sqlite:f", "memory:", "s3://b/p", "s3://b:1/p", "redis://a:1,b:2", "redis://h"} {
		if p, err := newPart(given, "x"); err == nil {
			t.Errorf("%s: %v, want an error", given, p)
		}
	}
}

// TestPartThatCannotBeListed opens a store which answers everything but a list. The error names the
// store.
func TestPartThatCannotBeListed(t *testing.T) {
	store := unlisted{memstore.New(), new(bool)}
	opts := Options{Store: "redis://u:s3cret@h:1", Open: func(context.Context, string) (driver.Store, error) {
		return store, nil
	}}
	p, err := openPart(t.Context(), opts)
	if err == nil || !errors.Is(err, errUnlisted) || !strings.Contains(err.Error(), "store redis://") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v, %v", p, err)
	}
}

// unlisted is a store that lists nothing the first time.
type unlisted struct {
	*memstore.Store
	failed *bool
}

var errUnlisted = errors.New("no list")

func (u unlisted) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	if *u.failed {
		return u.Store.List(ctx, prefix)
	}

	*u.failed = true
	return func(yield func(driver.Record, error) bool) { yield(driver.Record{}, errUnlisted) }
}

// TestRemoveAllRemovesAHeldRegister has a register whose holder was killed and released nothing.
func TestRemoveAllRemovesAHeldRegister(t *testing.T) {
	store := memstore.New()
	for _, l := range []driver.Record{
		{Name: "held", Epoch: 1, Holder: driver.Identity{ID: "a", Incarnation: "A"}, Nonce: 1, Duration: time.Minute},
		{Name: "vacant", Epoch: 1, Nonce: 1, Duration: time.Minute},
	} {
		if _, err := store.Swap(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}

	if left, err := (&part{store: store}).removeAll(t.Context()); left != 0 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
	for l, err := range store.List(t.Context(), "") {
		t.Errorf("%q is left, %v", l.Name, err)
	}
}
