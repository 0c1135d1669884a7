package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

var (
	//go:embed server.lua
	serverLua string
	//go:embed get.lua
	getLua string
	//go:embed swap.lua
	swapLua string
)

// script is called by its hash. It is sent in full to a server that does not have it.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// luaString returns s as a Lua string, with every byte escaped.
func luaString(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		b = fmt.Appendf(b, "\\%03d", s[i])
	}
	return string(append(b, '"'))
}

func (s *Store) command(sc script, r *request, full bool) rueidis.Completed {
	keys := "2"
	if len(r.keys) != 2 {
		keys = strconv.Itoa(len(r.keys))
	}
	if full {
		return s.client.B().Arbitrary("EVAL", sc.text, keys).Keys(r.keys...).Args(r.args...).Build()
	}
	return s.client.B().Arbitrary("EVALSHA", sc.sha, keys).Keys(r.keys...).Args(r.args...).Build()
}

// scriptMissing reports whether the server did not have a script, and so did not run it.
func scriptMissing(res rueidis.RedisResult) bool { return noScript(res.Error()) }

func noScript(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && re.IsNoScript()
}

func (s *Store) eval(ctx context.Context, sc script, r *request) rueidis.RedisResult {
	s.count(sc)
	res := s.do(ctx, s.command(sc, r, false))
	if scriptMissing(res) {
		res = s.do(ctx, s.command(sc, r, true))
	}
	return res
}

func (s *Store) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if s.conns.ready() && !s.closed.Load() && ctx.Err() == nil { // as send does, without a function that is allocated
		return s.client.Do(ctx, cmd)
	}

	return send(ctx, s, func() rueidis.RedisResult { return s.client.Do(ctx, cmd) }, rueidis.NewErrorResult)
}

func (s *Store) doMulti(ctx context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
	return send(ctx, s, func() []rueidis.RedisResult { return s.client.DoMulti(ctx, cmds...) }, failedAll(len(cmds)))
}

func failedAll(n int) func(error) []rueidis.RedisResult {
	return func(err error) []rueidis.RedisResult {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
	}
}

// evalAll calls a script for each request, in one round trip.
func (s *Store) evalAll(ctx context.Context, sc script, rs []*request) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(rs))
	for i, r := range rs {
		cmds[i] = s.command(sc, r, false)
	}

	s.count(sc)
	all := s.doMulti(ctx, cmds)
	var again []int
	cmds = cmds[:0]
	for i, res := range all {
		if scriptMissing(res) {
			again, cmds = append(again, i), append(cmds, s.command(sc, rs[i], len(cmds) == 0 || s.cluster))
		}
	}

	if len(again) > 0 {
		for i, res := range s.doMulti(ctx, cmds) {
			all[again[i]] = res
		}
	}

	return all
}
