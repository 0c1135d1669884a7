package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/kube"
	"github.com/regentd/regent/store/nats"
	"github.com/regentd/regent/store/postgres"
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/s3"
	"github.com/regentd/regent/store/sqlite"
)

// location returns the store's address for logs: without secrets, and with the absolute path of a file.
func location(address string) string {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		if real, err := sqlite.Locate(path); err == nil {
			return "sqlite:" + real
		}
		if real, err := filepath.Abs(path); err == nil {
			return "sqlite:" + real
		}
	}
	return config.Redact(address)
}

// storeUnshared adds a warning if other nodes may not have the same store: one in memory, or the default, which depends
// on the working directory.
func storeUnshared(s *config.Settings) {
	if strings.HasPrefix(s.Store, "memory:") {
		s.Warnings = append(s.Warnings,
			"store memory: is for this process alone: it leads whoever else does, and forgets every "+
				"epoch when it ends; use it to try things out, and sqlite:, redis://, postgres://, etcd://, "+
				"nats://, kube:// or s3:// for more than one process")
	}
	if !s.Given("store") {
		s.Warnings = append(s.Warnings, "store was not named, so it is "+location(s.Store)+", in the working "+
			"directory: a node that was started in another directory has another store, and may lead at the same "+
			"time; set store")
	}
}

// validateStore returns what can be known to be wrong with a store without contacting or creating it.
func validateStore(s *config.Settings) error {
	address := s.Store
	scheme, rest, _ := strings.Cut(address, ":")
	if s.PodLabel != "" && scheme != "kube" {
		return driver.Refused(&regent.ConfigError{Key: "podLabel", Value: s.PodLabel,
			Rule: "needs a store kube://, in the namespace of the pod"})
	}
	switch scheme {
	case "sqlite":
		return validatePath(rest)
	case "redis", "rediss":
		return redis.Validate(address)
	case "postgres", "postgresql":
		return postgres.Validate(address)
	case "etcd":
		return etcd.Validate(address)
	case "etcd+embedded":
		return validateEmbedded(s)
	case "nats":
		return nats.Validate(address)
	case "kube":
		return kube.Validate(address)
	case "s3":
		if err := s3.Validate(address); err != nil {
			return err
		}
		if err := s.Regent.ValidateWriteInterval(s3.WriteInterval(address)); err != nil {
			return driver.Refused(fmt.Errorf("store %s: %w", config.Redact(address), err))
		}
	}
	return nil
}

// validatePath returns what is wrong with the path of a database. An option is taken for a part of the name, unless
// there is such a file.
func validatePath(path string) error {
	real, err := sqlite.Locate(path)
	if err != nil {
		return err
	}

	_, option, found := strings.Cut(filepath.Base(real), "?")
	if _, missing := os.Lstat(real); found && strings.Contains(option, "=") && missing != nil {
		return driver.Refused(fmt.Errorf("store %q: sqlite: takes a path and no options: leave out %q",
			"sqlite:"+config.Redact(path), "?"+option))
	}
	return nil
}

// electionChecker is a store in which the name of an election may collide with the keys of other programs.
type electionChecker interface {
	CheckElection(ctx context.Context, name string) (warning string, err error)
}

// forElection returns a function that opens a store, and checks that the name of the election can be used in it.
func forElection(election string, warn func(string), open openFunc) openFunc {
	return func(ctx context.Context) (driver.Store, error) {
		store, err := open(ctx)
		if err != nil {
			return nil, err
		}
		checker, ok := store.(electionChecker)
		if !ok {
			return store, nil
		}

		short, cancel := context.WithTimeout(ctx, probeTimeout)
		warning, err := checker.CheckElection(short, election)
		cancel()
		switch {
		case errors.Is(err, driver.ErrRefused):
			_ = store.Close()
			return nil, err
		case err != nil: // the next request meets the same error
		case warning != "":
			warn(warning)
		}
		return store, nil
	}
}

// openFunc opens a store.
type openFunc = func(context.Context) (driver.Store, error)

// probeTimeout is how long --check-config waits for a store, and a start for the check of an election's name.
const probeTimeout = 5 * time.Second

// probeStore opens and closes the store, for --check-config. It returns an error if the store refuses this
// configuration, and says in a warning if the store could not be asked. It creates nothing.
func probeStore(ctx context.Context, s *config.Settings) error {
	if err := validateStore(s); err != nil {
		return err
	}
	if _, err := newLocalMember(s, slog.Default()); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(s.Store, "sqlite:"); ok {
		if fresh, err := wouldCreate(path); fresh || err != nil {
			return err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	warn := func(w string) { s.Warnings = append(s.Warnings, w) }
	use := storeUse{children: true, unchecked: true, present: true}
	store, err := forElection(s.Election, warn, opener(s.Store, use, warn))(ctx)
	switch {
	case errors.Is(err, postgres.ErrNoTable): // a node creates it
		return nil
	case errors.Is(err, nats.ErrNoStream):
		return nil // a node creates it
	case errors.Is(err, driver.ErrRefused):
		return err
	case err != nil:
		warn("store could not be checked: " + err.Error())
		return nil
	}
	return store.Close()
}

// openExisting opens a store for a command that reads and edits registers. It creates nothing.
func openExisting(ctx context.Context, address string) (driver.Store, error) {
	return openPresent(ctx, address, storeUse{children: true, unchecked: true}, func(string) {})
}

// openChecked opens a store with all checks of its driver, for 'regent doctor'.
func openChecked(ctx context.Context, address string, warn func(string)) (driver.Store, error) {
	if err := validateStore(&config.Settings{Store: address, Regent: regent.Fleet()}); err != nil {
		return nil, err
	}
	return openPresent(ctx, address, storeUse{children: true, present: true}, warn)
}

// openForDemo opens a part of a store for 'regent demo', which uses it and removes it.
func openForDemo(ctx context.Context, address string) (driver.Store, error) {
	store, err := opener(address, storeUse{children: true}, func(string) {})(ctx)
	if err == nil || errors.Is(err, driver.ErrRefused) {
		return store, err
	}
	return nil, &exitError{Code: cli.ExitUnreachable, Err: err}
}

// openPresent opens a store unless that would create a database.
func openPresent(ctx context.Context, address string, use storeUse, warn func(string)) (driver.Store, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		switch fresh, err := wouldCreate(path); {
		case err != nil:
			return nil, err
		case fresh:
			return nil, driver.Refused(fmt.Errorf("store %s: there is no database: %w", location(address),
				cli.ErrUnused))
		}
	}

	store, err := opener(address, use, warn)(ctx)
	if errors.Is(err, postgres.ErrNoTable) {
		return nil, driver.Refused(fmt.Errorf("store %s: there is no table: %w", location(address), cli.ErrUnused))
	}
	return store, err
}

// wouldCreate reports whether there is no database yet, and refuses a directory in which this user cannot create one.
func wouldCreate(path string) (bool, error) {
	real, err := sqlite.Locate(path)
	if err != nil {
		return false, err
	}

	if _, err := os.Stat(real); !errors.Is(err, fs.ErrNotExist) {
		return false, nil // the opening shows whether it can be written
	}
	if err := writableDir(filepath.Dir(real)); err != nil {
		return true, driver.Refused(fmt.Errorf("store %q: this user must be able to write its directory: %w",
			path, err))
	}
	return true, nil
}
