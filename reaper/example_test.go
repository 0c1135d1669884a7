package reaper_test

import (
	"context"
	"log"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper"
	"github.com/regentd/regent/store/sqlite"
)

// The program of a member with a companion process.
func Example() {
	ctx, id, address, config := context.Background(), "node-a", "regent.db", regent.Cluster()
	openStore := func(ctx context.Context, address string) (driver.Store, error) {
		return sqlite.Open(ctx, address, sqlite.Options{})
	}
	store, err := openStore(ctx, address)
	if err != nil {
		log.Fatal(err)
	}

	reaper.Main(openStore) // first in main: in the companion process it never returns

	companion, err := reaper.Start(ctx, reaper.Options{Store: address, StopTimeout: config.StopTimeout})
	if err != nil {
		log.Print("a crash is taken over when the lease expires: ", err)
	}
	member := &regent.Member{Store: store, ID: id, Config: config, OnLifeline: companion.Lifeline}

	log.Print(member.Lead(ctx, "reports", func(ctx context.Context, _ regent.Term) error {
		<-ctx.Done()
		return nil
	}))
}
