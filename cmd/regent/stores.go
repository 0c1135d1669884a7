package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/sqlite"
)

// opener returns what opens the store at an address. Where duties are processes of their own, the death of this process proves nothing of
// them, and the store is told so. What a store warns of at its opening goes to warn.
func opener(address string, children bool, warn func(string)) func(context.Context) (regent.Store, error) {
	return func(ctx context.Context) (regent.Store, error) {
		scheme, rest, _ := strings.Cut(address, ":")
		switch scheme {
		case "sqlite":
			store, err := sqlite.Open(ctx, rest, sqlite.Options{NoWitness: children})
			if err != nil {
				return nil, err
			}
			for _, w := range store.Warnings() {
				warn(w)
			}
			return store, nil
		case "memory":
			return memstore.New(), nil
		case "redis", "rediss":
			store, err := redis.Open(ctx, address, redis.Options{})
			if err != nil {
				return nil, err
			}
			for _, w := range store.Warnings() {
				warn(w)
			}
			return store, nil
		}
		return nil, fmt.Errorf("store %s: there is no driver for %s: yet", config.Redact(address), scheme)
	}
}
