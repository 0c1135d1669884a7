package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/kube"
	"github.com/regentd/regent/store/nats"
	"github.com/regentd/regent/store/postgres"
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/s3"
	"github.com/regentd/regent/store/sqlite"
)

// storeUse is the purpose for which a store is opened.
type storeUse struct {
	// children says that duties are processes of their own. The death of this process then proves nothing of them, so
	// the store proves no deaths.
	children bool
	// jitter is the longest start-up jitter. With it many processes may start at once. Each of them then checks its
	// Redis server in steps, over one to six times that jitter. How long is random, unlike every wait of the protocol
	// (rule 11): no election waits for the check, and the phase of the member is not known here. The one process that
	// checks an S3 server does so in steps too.
	jitter time.Duration
	// unchecked leaves out the check of an S3 server, which writes objects, of the permission to write to etcd, NATS or
	// Kubernetes, and the creation of a stream of NATS: for a process that only reads or releases. It creates no table
	// of PostgreSQL: one that is missing has no registers.
	unchecked bool
	// member is the etcd member in this process: for 'regent serve' on a store etcd+embedded: alone. Other commands are
	// clients of it.
	member *localMember
	// present refuses a database of PostgreSQL without the table, and does not create it.
	present bool
}

// opener returns a function that opens the store at an address. Warnings of the store go to warn.
//
// An error that is a [driver.ErrRefused] stays until somebody changes something.
func opener(address string, use storeUse, warn func(string)) func(context.Context) (driver.Store, error) {
	return func(ctx context.Context) (driver.Store, error) {
		scheme, rest, _ := strings.Cut(address, ":")
		switch scheme {
		case "sqlite":
			store, err := sqlite.Open(ctx, rest, sqlite.Options{NoWitness: use.children})
			if err != nil {
				return nil, err // a nil *sqlite.Store in an interface is not nil
			}
			for _, w := range store.Warnings() {
				warn(w)
			}
			return store, nil
		case "memory":
			return memstore.New(), nil
		case "redis", "rediss":
			opts := redis.Options{OnWarning: warn}
			if use.jitter > 0 {
				opts.CheckOver = use.jitter + rand.N(5*use.jitter)
			}
			store, err := redis.Open(ctx, address, opts)
			if err != nil {
				return nil, err
			}
			for _, w := range store.Warnings() {
				warn(w)
			}
			return store, nil
		case "postgres", "postgresql":
			store, err := postgres.Open(ctx, address, postgres.Options{
				NoCreate: use.present, AllowMissing: use.unchecked && !use.present, OnWarning: warn,
			})
			if err != nil {
				return nil, err
			}
			return store, nil
		case "etcd":
			store, err := etcd.Open(ctx, address, etcd.Options{NoProbe: use.unchecked, OnWarning: warn})
			if err != nil {
				return nil, err
			}
			return store, nil
		case "etcd+embedded":
			return openEmbedded(ctx, address, use, warn)
		case "nats":
			store, err := nats.Open(ctx, address, nats.Options{NoProbe: use.unchecked, OnWarning: warn})
			if err != nil {
				return nil, err
			}
			return store, nil
		case "kube":
			store, err := kube.Open(ctx, address, kube.Options{NoProbe: use.unchecked, OnWarning: warn})
			if err != nil {
				return nil, err
			}
			return store, nil
		case "s3":
			store, err := s3.Open(ctx, address, s3.Options{NoProbe: use.unchecked, CheckOver: 4 * use.jitter})
			if err != nil {
				return nil, err
			}
			return store, nil
		}
		return nil, driver.Refused(fmt.Errorf("store %s: no such driver; this binary has %s",
			config.Redact(address), strings.Join(config.Schemes(), ", ")))
	}
}
