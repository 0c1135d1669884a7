package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/regentd/regent/bench/internal/compare"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverClient campaigns with River's clients. Each schema of a database has one leader, so an election is a schema. A
// client campaigns from its start to its stop. The bench reads the table of leaders to see
// who leads, every millisecond.
type riverClient struct {
	pool    *pgxpool.Pool
	schemas *schemas
}

// schemas are those that have been made in this process.
type schemas struct {
	mu   sync.Mutex
	made map[string]bool // by server and schema
}

var riverSchemas = &schemas{made: map[string]bool{}}

func openRiver(ctx context.Context, addr string) (compare.Contender, error) {
	cfg, err := pgxpool.ParseConfig(addr)
	if err != nil {
		return nil, err
	}

	cfg.MaxConns = 3 // its listener, its elector and the bench
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &riverClient{pool, riverSchemas}, nil
}

// make creates the tables of River in a schema, once.
func (s *schemas) make(ctx context.Context, pool *pgxpool.Pool, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	on := pool.Config().ConnString() + " " + name
	if s.made[on] {
		return nil
	}
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
		return err
	}

	quiet := slog.New(slog.DiscardHandler)
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: name, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}

	s.made[on] = true
	return nil
}

func (r *riverClient) Hold(ctx context.Context, election string, led func()) error {
	schema := "river_" + strings.ToLower(strings.ReplaceAll(key(election), "-", "_"))
	schema = schema[:min(len(schema), 40)]
	if err := r.schemas.make(ctx, r.pool, schema); err != nil {
		return err
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, &idleWorker{})
	id := rand.Text()
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		ID: id, Schema: schema, Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}

	err = r.awaitLeader(ctx, schema, id)
	if err == nil {
		led()
		<-ctx.Done()
	}

	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, client.Stop(stop))
}

func (r *riverClient) awaitLeader(ctx context.Context, schema, id string) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()

	for {
		var leader string
		err := r.pool.QueryRow(ctx, fmt.Sprintf("SELECT leader_id FROM %s.river_leader", schema)).Scan(&leader)
		switch {
		case err == nil && leader == id:
			return nil
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return err
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *riverClient) Once(ctx context.Context, election string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return r.Hold(ctx, election, cancel)
}

func (r *riverClient) Close() { r.pool.Close() }

// idleArgs are those of a job that nobody inserts. A client without a worker cannot start.
type idleArgs struct{}

func (idleArgs) Kind() string { return "idle" }

type idleWorker struct{ river.WorkerDefaults[idleArgs] }

func (*idleWorker) Work(context.Context, *river.Job[idleArgs]) error { return nil }
