package main

import (
	"context"
	"time"

	"github.com/regentd/regent"
)

// contender is a client of its own that campaigns for elections.
type contender interface {
	// hold campaigns for an election, calls led when it leads, keeps it until ctx ends, and gives it up.
	hold(ctx context.Context, election string, led func()) error
	// once acquires an election that is free, and releases it.
	once(ctx context.Context, election string) error
	close()
}

// side is one way to elect.
type side struct {
	name      string
	postgres  bool // else on Redis
	open      func(ctx context.Context, addr string) (contender, error)
	inScripts []string // Redis commands that it calls in scripts, and never directly
}

// The names of the sides, as tables and processes know them.
const (
	regentLock    = "Regent, profile lock"
	regentCluster = "Regent, profile cluster"
	rueidisPeer   = "rueidislock"
	redsyncPeer   = "redsync"
	redislockPeer = "bsm/redislock"
	advisoryPeer  = "PostgreSQL advisory lock"
)

// scripted is what scripts call where a client itself calls nothing but scripts.
var scripted = []string{"get", "set", "del", "pexpire", "time", "zadd", "publish", "pttl", "persist", "getrange"}

// sides are all of them; the peers with a lease of ttl, which they renew each third of it, and Regent with that of its profile.
func sides(ttl time.Duration) []side {
	return []side{
		{name: regentLock, open: openRegent(regent.Lock()), inScripts: scripted},
		{name: regentCluster, open: openRegent(regent.Cluster()), inScripts: scripted},
		{name: rueidisPeer, open: openRueidislock(ttl), inScripts: []string{"get", "set", "del", "pexpireat"}},
		{name: redsyncPeer, open: openRedsync(ttl), inScripts: []string{"get", "del", "pexpire"}},
		{name: redislockPeer, open: openRedislock(ttl), inScripts: scripted},
		{name: advisoryPeer, open: openAdvisory, postgres: true},
	}
}

// keep renews every third of a lease until ctx ends.
func keep(ctx context.Context, ttl time.Duration, renew func() error) error {
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := renew(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// election is the name wherever nobody else on the server has it.
const election = "bench:leader"
