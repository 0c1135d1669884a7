// Command example is a program with a leader that is replaced in milliseconds when it crashes, at a lease of 30 s, on
// Redis or SQLite. Start it twice, see which process leads, and end that one with kill -9:
//
//	go run ./reaper/example -store redis://127.0.0.1:6379 -node a
//
// The lines about the reaper are those that a program of yours needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper"
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/sqlite"
)

func main() {
	reaper.Main(openStore) // the companion process never gets past this line

	address := flag.String("store", "sqlite:example.db", "redis://HOST:PORT or sqlite:PATH")
	node := flag.String("node", "", "name of this process, different from all others")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, *address, *node); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// openStore opens the store, in this process and in its companion.
func openStore(ctx context.Context, address string) (driver.Store, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return sqlite.Open(ctx, path, sqlite.Options{})
	}
	return redis.Open(ctx, address, redis.Options{})
}

func run(ctx context.Context, address, node string) error {
	store, err := openStore(ctx, address)
	if err != nil {
		return err
	}
	defer store.Close()

	config := regent.Lock() // its lease is 30 s
	companion, err := reaper.Start(ctx, reaper.Options{Store: address, StopTimeout: config.StopTimeout})
	if errors.Is(err, reaper.ErrUnsupported) {
		slog.Warn("a crash is taken over when the lease has expired", "leaseDuration", config.LeaseDuration, "reason",
			err)
	} else if err != nil {
		return err
	}
	defer companion.Close()

	member := &regent.Member{Store: store, ID: node, Config: config, OnLifeline: companion.Lifeline}
	member.OnEvent = regent.LogEvents(slog.Default())
	return member.Lead(ctx, "example", func(ctx context.Context, term regent.Term) error {
		fmt.Printf("%s leads, epoch %d\n", node, term.Epoch)
		<-ctx.Done()
		return nil
	})
}
