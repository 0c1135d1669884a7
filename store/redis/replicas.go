package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// This file is what Options.Replicas adds: a swap counts when enough replicas have it.

// errUnconfirmed says that a swap is on the primary, but not on as many replicas as were asked for.
var errUnconfirmed = errors.New("applied, but too few replicas have confirmed it")

// evalAndWait calls a script that writes, and waits for the replicas, on one connection, which is what WAIT goes by.
func (s *Store) evalAndWait(ctx context.Context, sc script, name string, r *request) rueidis.RedisResult {
	s.setUnsure(name, true)
	for _, full := range []bool{false, true} {
		s.count(sc)
		all := s.onOne(ctx, s.command(sc, r, full), s.wait())
		switch err := all[0].Error(); {
		case unknown(all[0]):
			continue
		case err == nil:
			if err := s.confirmed(all[1]); err != nil {
				return rueidis.NewErrorResult(err)
			}
			s.setUnsure(name, false)
		}
		return all[0]
	}
	return rueidis.NewErrorResult(errors.New("the server forgets scripts at once"))
}

func (s *Store) setUnsure(name string, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unsure {
		s.unsure[name] = true
	} else {
		delete(s.unsure, name)
	}
}

func (s *Store) isUnsure(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure[name]
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

// onOne sends two commands over a connection that nobody else uses meanwhile, since WAIT blocks it. In a cluster it must be one that does
// not follow a slot which has moved: WAIT would ask the wrong node.
func (s *Store) onOne(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
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

// rewriteLua writes what is there, for WAIT to wait for.
const rewriteLua = `local reg = redis.call('GET', KEYS[2]) if reg then redis.call('SET', KEYS[2], reg) end return 1`

// confirm makes sure of a record that was written and not confirmed before it is shown: who wrote it would otherwise read it and believe it.
func (s *Store) confirm(ctx context.Context, name string, r *request) error {
	if !s.isUnsure(name) {
		return nil
	}
	all := s.onOne(ctx, s.command(script{text: rewriteLua}, r, true), s.wait())
	if err := all[0].Error(); err != nil {
		return err
	}
	if err := s.confirmed(all[1]); err != nil {
		return err
	}
	s.setUnsure(name, false)
	return nil
}
