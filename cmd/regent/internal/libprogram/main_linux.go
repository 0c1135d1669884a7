// Command libprogram is a program for tests that uses the library. It campaigns for an election. While it
// leads it writes a claim to its standard output every 20 ms. 'libprogram claim' writes claims without campaigning: it
// is the program that 'regent run' runs in those tests.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/kube"
	"github.com/regentd/regent/store/nats"
	"github.com/regentd/regent/store/postgres"
	"github.com/regentd/regent/store/redis"
	"golang.org/x/sys/unix"
)

// every is the time between two claims.
const every = 20 * time.Millisecond

// setup configures the program. It is the argument of the command 'member', as JSON.
type setup struct {
	Store    string
	Node     string
	Election string
	Config   regent.Config
	Reaper   bool
	Bomb     string // a file: if it exists, the next swap removes it and panics
}

// claim is a line of JSON: a node led at an instant between two times of CLOCK_BOOTTIME.
type claim struct {
	Node   string        `json:"node"`
	Epoch  uint64        `json:"epoch"`
	Before time.Duration `json:"before"`
	After  time.Duration `json:"after"`
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	reaper.Main(open)

	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "libprogram:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "claim":
		return claimAlways()
	case len(args) == 2 && args[0] == "member":
		return member(args[1], slog.Default())
	}

	return errors.New("usage: libprogram member SETUP | claim")
}

// member campaigns until it gets a signal to end.
func member(arg string, log *slog.Logger) error {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	store, err := open(ctx, s.Store)
	if err != nil {
		return err
	}
	defer store.Close()

	if s.Bomb != "" {
		store = &bombed{store, s.Bomb}
	}

	m := &regent.Member{Store: store, ID: s.Node, Config: s.Config, OnEvent: regent.LogEvents(log)}

	if s.Reaper {
		companion, err := reaper.Start(ctx, reaper.Options{Store: s.Store, StopTimeout: s.Config.StopTimeout, Log: log})
		if err != nil {
			return err
		}
		defer companion.Close()

		m.OnLifeline = companion.Lifeline
	}

	err = m.Lead(ctx, s.Election, func(ctx context.Context, t regent.Term) error {
		return claimWhile(ctx, s.Node, t.Epoch, t.Valid)
	})

	if ctx.Err() != nil {
		return nil
	}

	return err
}

// bombed is a store whose driver panics in the next swap after a file was created.
type bombed struct {
	driver.Store
	path string
}

func (b *bombed) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if os.Remove(b.path) == nil {
		panic("the driver is broken")
	}
	return b.Store.Swap(ctx, l)
}

// claimAlways writes claims until it gets a signal to end: the program of 'regent run' leads for as long as it runs.
func claimAlways() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	epoch, err := strconv.ParseUint(os.Getenv("REGENT_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("REGENT_EPOCH: %w", err)
	}

	return claimWhile(ctx, os.Getenv("REGENT_NODE"), epoch, func() bool { return true })
}

// claimWhile writes a claim every 20 ms if leads returns true, until ctx ends.
func claimWhile(ctx context.Context, node string, epoch uint64, leads func() bool) error {
	out := json.NewEncoder(os.Stdout)
	tick := time.NewTicker(every)
	defer tick.Stop()

	for {
		before := boottime()
		if leads() {
			if err := out.Encode(claim{Node: node, Epoch: epoch, Before: before, After: boottime()}); err != nil {
				return err
			}
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func open(ctx context.Context, address string) (driver.Store, error) {
	switch scheme, _, _ := strings.Cut(address, ":"); scheme {
	case "nats":
		return nats.Open(ctx, address, nats.Options{})
	case "etcd":
		return etcd.Open(ctx, address, etcd.Options{})
	case "postgres":
		return postgres.Open(ctx, address, postgres.Options{})
	case "kube":
		return kube.Open(ctx, address, kube.Options{})
	}
	return redis.Open(ctx, address, redis.Options{})
}

// boottime returns the time of CLOCK_BOOTTIME, which all processes of a machine share.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has this clock since 2.6.39
	}
	return time.Duration(ts.Nano())
}
