//go:build !embedded

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
)

// errNoEmbedded is the error of everything that needs an etcd member, in a build without one.
var errNoEmbedded = driver.Refused(errors.New(config.NoEmbedded))

// localMember is the etcd member in this process. This build has none.
type localMember struct{}

func newLocalMember(*config.Settings, *slog.Logger) (*localMember, error) { return nil, nil }

func (*localMember) reaperStore(s *config.Settings) string { return s.Store }

func (*localMember) Failed() <-chan error { return nil }

func (*localMember) Close() {}

func validateEmbedded(*config.Settings) error { return errNoEmbedded }

func openEmbedded(context.Context, string, storeUse, func(string)) (driver.Store, error) {
	return nil, errNoEmbedded
}
