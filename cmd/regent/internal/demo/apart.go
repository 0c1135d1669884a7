package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
)

const (
	// openTimeout is how long the store may take to answer at first.
	openTimeout = 5 * time.Second
	// clearTimeout is how long the demo tries to remove its registers.
	clearTimeout = 15 * time.Second
	// clearPause is how long the demo waits before it lists its registers again.
	clearPause = 100 * time.Millisecond
)

// part is a part of a store that this demo alone uses: no election of others is in it. The demo removes it at its end.
type part struct {
	address *url.URL
	name    string // what it is called in the store
	store   driver.Store
}

// dropper is a store whose part is more than its registers: a table.
type dropper interface {
	DropEmpty(ctx context.Context) error
}

// openPart opens a new part of the store at an address. The error names the store.
func openPart(ctx context.Context, opts Options) (*part, error) {
	p, err := newPart(opts.Store, strings.ToLower(rand.Text()[:8]))
	if err != nil {
		return nil, driver.Refused(fmt.Errorf("store %s: %w", config.Redact(opts.Store), err))
	}

	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if p.store, err = opts.Open(ctx, p.address.String()); err != nil {
		return nil, err
	}

	for l, err := range p.store.List(ctx, "") {
		if err != nil {
			return nil, errors.Join(fmt.Errorf("store %s: %w", config.Redact(opts.Store), err), p.clear())
		}

		_ = p.store.Close()
		return nil, driver.Refused(fmt.Errorf("store %s: %s has registers of others already, such as %q: start the "+
			"demo again", config.Redact(opts.Store), p.name, l.Name))
	}
	return p, nil
}

// newPart returns the part of a store that is named after id.
func newPart(address, id string) (*part, error) {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" || strings.Contains(u.Host, ",") {
		return nil, errors.New("the demo needs the address of one server: redis://host:port, " +
			"postgres://host:port/db or etcd://host:port")
	}

	p := &part{address: u}
	query := u.Query()
	switch u.Scheme {
	case "redis", "rediss":
		prefix := query.Get("prefix") + "regent-demo-" + id + ":"
		query.Set("prefix", prefix)
		p.name = "prefix " + prefix
	case "postgres", "postgresql":
		table := "regent_demo_" + id
		if schema, _, ok := strings.Cut(query.Get("table"), "."); ok {
			table = schema + "." + table
		}
		query.Set("table", table)
		p.name = "table " + table
	case "etcd":
		// It is beside the prefix of others, and not below it: they list all keys below theirs.
		path := strings.Trim(u.Path, "/")
		if path == "" {
			path = "regent"
		}
		u.Path = "/" + path + "-demo-" + id
		p.name = "prefix " + u.Path
	default:
		return nil, errors.New("the demo cannot keep its registers apart from others there: name a server of " +
			"redis://, postgres:// or etcd://, or leave out --store")
	}

	u.RawQuery = query.Encode()
	return p, nil
}

// clear removes the part, when all processes of the demo have ended. Their reapers may still release registers.
func (p *part) clear() error {
	defer p.store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clearTimeout)
	defer cancel()

	for {
		left, err := p.removeAll(ctx)
		if d, ok := p.store.(dropper); ok && left == 0 && err == nil {
			err = d.DropEmpty(ctx)
		}
		if left == 0 && err == nil {
			return nil
		}

		select {
		case <-time.After(clearPause):
		case <-ctx.Done():
			return fmt.Errorf("store %s: the demo could not remove its registers, remove them by hand: %s: %w",
				config.Redact(p.address.String()), p.name, errors.Join(err, ctx.Err()))
		}
	}
}

// removeAll removes every register that nobody changes meanwhile, and returns how many may be left.
func (p *part) removeAll(ctx context.Context) (left int, err error) {
	remover, ok := p.store.(driver.Remover)
	if !ok {
		return 0, errors.ErrUnsupported
	}

	for l, failed := range p.store.List(ctx, "") {
		if failed != nil {
			return left, failed
		}

		if l.Holder != (driver.Identity{}) { // its process was killed
			l.Holder = driver.Identity{}
			if l, failed = p.store.Swap(ctx, l); failed != nil {
				left++
				continue
			}
		}
		if remover.Remove(ctx, l) != nil {
			left++
		}
	}
	return left, nil
}
