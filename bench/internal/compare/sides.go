package compare

import (
	"context"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Contender is a client that campaigns in elections.
type Contender interface {
	// Hold campaigns in an election, calls led when it leads, keeps the election until ctx ends, and releases it.
	Hold(ctx context.Context, election string, led func()) error
	// Once acquires an election that is free, and releases it.
	Once(ctx context.Context, election string) error
	Close()
}

// side is Regent or a peer, with its settings.
type side struct {
	name      string
	postgres  bool // else on Redis
	open      func(ctx context.Context, addr string) (Contender, error)
	inScripts []string // commands of Redis that only its scripts call

	// Of Regent alone: its store and its settings.
	store func(ctx context.Context, addr string) (driver.Store, error)
	cfg   regent.Config
}

// heartbeats returns how many heartbeats a standby sends in a second.
func (s side) heartbeats() number {
	if s.store == nil || s.cfg.OwnLease {
		return 0
	}
	return 1 / number(s.cfg.HeartbeatInterval.Seconds())
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

// scripted are the commands that scripts call, for a client that calls nothing but scripts.
var scripted = []string{"get", "set", "del", "pexpire", "time", "zadd", "publish", "pttl", "persist", "getrange"}

// sides returns all sides. Peers have a lease of ttl, and renew it every third of that. Regent has the lease of its
// profile.
func sides(ttl time.Duration) []side {
	return []side{
		{name: regentLock, open: openRegent(regent.Lock()), inScripts: scripted, store: openRedis, cfg: regent.Lock()},
		{name: regentCluster, open: openRegent(regent.Cluster()), inScripts: scripted, store: openRedis,
			cfg: regent.Cluster()},
		{name: rueidisPeer, open: openRueidislock(ttl), inScripts: []string{"get", "set", "del", "pexpireat"}},
		{name: redsyncPeer, open: openRedsync(ttl), inScripts: []string{"get", "del", "pexpire"}},
		{name: redislockPeer, open: openRedislock(ttl), inScripts: scripted},
		{name: advisoryPeer, open: openAdvisory, postgres: true},
	}
}

// keep renews a lease every third of ttl until ctx ends.
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

// election is the name of the election, where no other side uses the server.
const election = "bench:leader"
