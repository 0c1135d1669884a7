package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/store/sqlite"
)

// opener returns what opens the store at an address. Where duties are processes of their own, the death of this process proves nothing of
// them, and the store is told so.
func opener(address string, children bool) func(context.Context) (regent.Store, error) {
	return func(ctx context.Context) (regent.Store, error) {
		scheme, rest, _ := strings.Cut(address, ":")
		switch scheme {
		case "sqlite":
			return sqlite.Open(ctx, rest, sqlite.Options{NoWitness: children})
		case "memory":
			return memstore.New(), nil
		}
		return nil, fmt.Errorf("store %s: there is no driver for %s: yet", config.Redact(address), scheme)
	}
}
