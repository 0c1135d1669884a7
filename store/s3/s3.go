// Package s3 keeps Regent's registers in a bucket of Amazon S3, or of a server that speaks its protocol and honours
// conditional writes. Each register is one object.
//
// What it assumes:
//   - The server checks the conditions If-None-Match: * and If-Match of a PUT atomically with the write, and a read
//     shows every write that was answered before it began. Open lets 32 writers race for one object and refuses a
//     server that lets two of them win. Such a race can convict a server, but cannot prove that a server is correct.
//   - Nobody else writes, deletes or restores objects below the prefix. docs/STORES.md has a bucket policy that refuses
//     writes without a condition.
//   - Nothing between this process and the server sends a PUT twice.
//
// What it does not have: notifications, so that a standby learns of a release at its next poll; and removal, so that
// the objects of members that never come back stay.
//
// The shortest program:
//
//	store, err := s3.Open(ctx, "s3://bucket/prefix?region=eu-central-1", s3.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The record of the election coordinator is the JSON object prefix/coordinator.json, that of the member node-a is
// prefix/regent/member/node-a.json. Characters other than letters, digits and - _ . : / are written as ! and two
// hexadecimal digits for each byte.
package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent/driver"
)

// Options configures a Store beyond its address. The zero value is usable.
type Options struct {
	// Credentials replaces the SDK's chain of credential providers (environment, shared files, web identity, container,
	// instance).
	Credentials aws.CredentialsProvider

	// NoProbe skips the race of writers by which Open refuses a server that does not honour conditions.
	NoProbe bool

	// CheckOver spreads that race over a time, should this process have to run it: Open waits for the first of its six
	// competitions, and refuses a server that fails it. The others follow in the background; if one fails, every
	// request of the store is refused from then on. For fleets that start at once. At most 20 s.
	CheckOver time.Duration
}

// Store is a bucket, or the part of it below a prefix. It implements [driver.Store], [driver.Refresher],
// [driver.Skimmer], [driver.Counter] and [driver.WriteLimiter]. It is no [driver.Remover]: that takes a DELETE whose
// condition is checked atomically, which not every server has.
type Store struct {
	addr      *address
	server    string // the endpoint, for errors
	client    *s3.Client
	closeIdle func()
	requests  driver.RequestCount
	cache     cache
	skimming  chan struct{} // holds one value during the turn of a Skim

	id     uint64        // of this Store among all that ever were
	writes atomic.Uint64 // that it has sent

	opaque   atomic.Bool           // the server's ETags are no hashes: the last write has shown it
	refused  atomic.Pointer[error] // why every request is refused: a probe has failed after Open
	raceTime time.Duration         // how long another process may take for the race
	raceStep time.Duration         // between two competitions of the race

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
}

var (
	_ driver.Store        = (*Store)(nil)
	_ driver.Refresher    = (*Store)(nil)
	_ driver.Skimmer      = (*Store)(nil)
	_ driver.Counter      = (*Store)(nil)
	_ driver.WriteLimiter = (*Store)(nil)
)

// Open opens the store at an address:
//
//	s3://BUCKET[/PREFIX][?key=value&…]
//
// The keys are region, endpoint, path_style, sse, kms_key and write_interval; see docs/STORES.md. Credentials, and what
// the address does not say, come from the SDK's own configuration: variables such as AWS_REGION and AWS_PROFILE, shared
// files, the container, the instance.
//
// Open reads and writes below the prefix, and refuses a server that lets several writers win a race: see the package
// comment. The result is kept in the bucket, so that of many processes which start at once one runs the race.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	return openWithin(ctx, addr, opts, raceTime)
}

// openWithin opens a store that gives other processes a time to run the race.
func openWithin(ctx context.Context, addr string, opts Options, raceTime time.Duration) (*Store, error) {
	a, err := parseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", redact(addr), driver.Refused(err))
	}

	s := &Store{addr: a, id: rand.Uint64(), raceTime: raceTime, skimming: make(chan struct{}, 1)}
	s.raceStep = min(opts.CheckOver, maxCheckOver) / (2*raceRounds - 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.connect(ctx, opts); err != nil {
		s.cancel()
		return nil, fmt.Errorf("open store %s: %w", a, err)
	}

	// A server that never answers must not keep Open for ever: the caller gets an error, and may try again.
	short, cancel := context.WithTimeout(ctx, 2*raceTime)
	defer cancel()

	if err := s.check(short, opts); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %s: %w", a, err)
	}

	return s, nil
}

// Requests implements [driver.Counter]. The kinds are those that a bill has: get, put, list and delete.
func (s *Store) Requests() map[string]uint64 { return s.requests.Requests() }

// WriteInterval implements [driver.WriteLimiter]: a second for Google Cloud Storage and Cloudflare R2, or what the
// address says.
func (s *Store) WriteInterval() time.Duration { return s.addr.writeInterval }

// Close implements [driver.Store]. It ends the requests that are under way.
func (s *Store) Close() error {
	s.cancel()
	s.work.Wait()
	s.closeIdle()
	return nil
}

// begin returns a context for one request: it ends with ctx, and with the store.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch refused := s.refused.Load(); {
	case s.ctx.Err() != nil:
		return nil, nil, driver.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case refused != nil:
		return nil, nil, *refused
	}

	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// explain returns an error of a request as its caller should see it.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return driver.ErrClosed
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}

	return err
}
