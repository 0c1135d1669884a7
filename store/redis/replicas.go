package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// This file implements Options.Replicas: a swap counts when enough replicas have confirmed it.

// errUnconfirmed means that a swap was applied on the primary, but not on as many replicas as required.
var errUnconfirmed = errors.New("applied, but too few replicas have confirmed it")

// evalAndWait calls a script that writes, and waits for the replicas. Both use one connection, because WAIT counts the
// writes of its connection.
func (s *Store) evalAndWait(ctx context.Context, sc script, name string, r *request) rueidis.RedisResult {
	s.setUnconfirmed(name, true)
	for _, full := range []bool{false, true} {
		s.count(sc)
		all := s.onOneConnection(ctx, s.command(sc, r, full), s.wait())
		switch err := all[0].Error(); {
		case scriptMissing(all[0]):
			continue
		case err == nil:
			if err := s.confirmed(all[1]); err != nil {
				return rueidis.NewErrorResult(err)
			}
			s.setUnconfirmed(name, false)
		}
		return all[0]
	}

	return rueidis.NewErrorResult(errors.New("the server does not keep scripts"))
}

func (s *Store) setUnconfirmed(name string, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if unsure {
		s.unconfirmed[name] = true
	} else {
		delete(s.unconfirmed, name)
	}
}

func (s *Store) isUnconfirmed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unconfirmed[name]
}

func (s *Store) wait() rueidis.Completed {
	return s.client.B().Wait().Numreplicas(int64(s.addr.replicas)).Timeout(s.addr.replicaTimeout.Milliseconds()).Build()
}

func (s *Store) confirmed(res rueidis.RedisResult) error {
	n, err := res.AsInt64()
	if err == nil && n < int64(s.addr.replicas) {
		err = fmt.Errorf("%w: %d of %d", errUnconfirmed, n, s.addr.replicas)
	}
	return err
}

// onOneConnection sends two commands over a connection of their own, because WAIT blocks it. In a cluster the
// connection must not follow a hash slot that has moved: WAIT would ask the wrong node.
func (s *Store) onOneConnection(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if !s.cluster {
		return s.doMulti(ctx, cmds)
	}
	return send(ctx, s, func() (all []rueidis.RedisResult) {
		_ = s.client.Dedicated(func(c rueidis.DedicatedClient) error {
			all = c.DoMulti(ctx, cmds...)
			return nil
		})
		return all
	}, failedAll(len(cmds)))
}

// rewriteLua writes the register again, so that WAIT has a write to wait for.
const rewriteLua = `local reg = redis.call('GET', KEYS[2]) if reg then redis.call('SET', KEYS[2], reg) end return 1`

// confirm waits for the replicas of a record whose swap was not confirmed, before the record is returned. Otherwise the
// member that wrote it would believe it.
func (s *Store) confirm(ctx context.Context, name string, r *request) error {
	if !s.isUnconfirmed(name) {
		return nil
	}

	all := s.onOneConnection(ctx, s.command(script{text: rewriteLua}, r, true), s.wait())
	if err := all[0].Error(); err != nil {
		return err
	}

	if err := s.confirmed(all[1]); err != nil {
		return err
	}

	s.setUnconfirmed(name, false)
	return nil
}
