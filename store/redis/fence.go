package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
)

// FenceScript is what [Fence] puts before a script, for those who use another client: with the guard's key added to the end of KEYS and the
// epoch, in decimal, to the end of ARGV, it refuses an older epoch with the error "STALE" and the newest one. It takes both away again, so
// that the script that follows sees its own.
//
//go:embed fence.lua
var FenceScript string

// Fence runs a Lua script of yours, on any Redis, if no newer term has run one there: the check, what the script writes and the new mark
// are one step, so that no newer term comes between. An older epoch is refused with a [regent.StaleError], and nothing was written.
//
//	_, err := redis.Fence(ctx, client, term, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"report"}, []string{"done"})
//
// The highest epoch is kept in the key regent:fence:ELECTION, for the whole database. In a cluster a script reaches one slot only: there it
// is {TAG}:regent:fence:ELECTION, where TAG is the hash tag of the first key, or that key; so give the keys that a leader writes one tag.
// Do not delete it, and do not let it be evicted. The client's user must be allowed to GET and SET it. As with everything in Redis, a
// failover may forget the last writes, and the mark with them.
func Fence(ctx context.Context, client rueidis.Client, term regent.Term, script string, keys, args []string) (rueidis.RedisMessage, error) {
	fail := func(err error) (rueidis.RedisMessage, error) {
		return rueidis.RedisMessage{}, fmt.Errorf("fence %q at epoch %d: %w", term.Election, term.Epoch, err)
	}
	if term.Epoch == 0 {
		return fail(fmt.Errorf("every term has an epoch from 1 on"))
	}
	guard := "regent:fence:" + term.Election
	if client.Mode() == rueidis.ClientModeCluster {
		tag, err := hashTag(keys)
		if err != nil {
			return fail(err)
		}
		guard = "{" + tag + "}:" + guard
	}
	lua := rueidis.NewLuaScript(FenceScript + script)
	msg, err := lua.Exec(ctx, client, append(keys[:len(keys):len(keys)], guard),
		append(args[:len(args):len(args)], strconv.FormatUint(term.Epoch, 10))).ToMessage()
	if rueidis.IsRedisNil(err) { // the script returned nothing
		err = nil
	}
	if err == nil {
		return msg, nil
	}
	if stale, ok := rueidis.IsRedisErr(err); ok {
		if _, after, ok := strings.Cut(stale.Error(), "STALE "); ok {
			if newest, err := strconv.ParseUint(strings.TrimSpace(after), 10, 64); err == nil {
				return fail(&regent.StaleError{Epoch: term.Epoch, Newest: newest})
			}
		}
	}
	return fail(err)
}

// hashTag returns what decides on the slot of the first key, as something that can stand in braces.
func hashTag(keys []string) (string, error) {
	if len(keys) == 0 {
		return "", fmt.Errorf("in a cluster a script needs a key")
	}
	if _, rest, ok := strings.Cut(keys[0], "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag, nil
		}
	}
	if strings.Contains(keys[0], "}") {
		return "", fmt.Errorf("key %q: in a cluster a key with } must have a hash tag, such as {%s}", keys[0], strings.NewReplacer("{", "", "}", "").Replace(keys[0]))
	}
	return keys[0], nil
}
