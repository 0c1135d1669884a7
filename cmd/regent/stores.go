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
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/sqlite"
)

// opener returns a function that opens the store at an address. Where duties are processes of their own, the death of
// this process proves nothing of them, so the store proves no deaths then. Warnings of the store go to warn.
//
// With start-up jitter many processes may start at once. Each of them then checks its server in steps, over one to
// six times that jitter. How long is random, unlike every wait of the protocol (rule 11): no election waits for the
// check, and the phase of the member is not known here.
//
// An error that is a [driver.ErrRefused] stays until somebody changes something.
func opener(address string, children bool, jitter time.Duration,
	warn func(string)) func(context.Context) (driver.Store, error) {
	return func(ctx context.Context) (driver.Store, error) {
		scheme, rest, _ := strings.Cut(address, ":")
		switch scheme {
		case "sqlite":
			store, err := sqlite.Open(ctx, rest, sqlite.Options{NoWitness: children})
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
			if jitter > 0 {
				opts.CheckOver = jitter + rand.N(5*jitter)
			}
			store, err := redis.Open(ctx, address, opts)
			if err != nil {
				return nil, err
			}
			for _, w := range store.Warnings() {
				warn(w)
			}
			return store, nil
		}
		return nil, driver.Refused(fmt.Errorf("store %s: no such driver; this binary has %s",
			config.Redact(address), strings.Join(config.Schemes(), ", ")))
	}
}
