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

// FenceScript is put before a script by [Fence]. Those who use another client add the guard's key
// to the end of KEYS, and "EPOCH TERM" to the end of ARGV: the epoch in decimal, and the term's
// incarnation. The script refuses an older epoch, and another term with the same epoch, with the
// error "STALE EPOCH TERM", which names the newest. It takes the key and the argument away again,
// so that the script that follows sees its own.
//
//go:embed fence.lua
var FenceScript string

// Fence runs a Lua script of yours, on any Redis, if no newer term has run one there: the check,
// what the script writes and the new mark are one step, so that no newer term comes between. An
// older epoch, and another term with the same epoch, is refused with a [regent.StaleError], and
// nothing was written.
//
//	_, err := redis.Fence(ctx, client, term, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"report"}, []string{"done"})
//
// The highest epoch and its term are kept in the key regent:fence:ELECTION, as "EPOCH TERM", for
// the whole database. A mark of the version before, which is the epoch alone, is read; that version
// cannot read the new mark, and refuses to write. In a cluster a script reaches one slot only:
// there it is {TAG}:regent:fence:ELECTION, where TAG is the hash tag of the first key, or that key;
// so give the keys that a leader writes one tag. Do not delete it, and do not let it be evicted.
// The client's user must be allowed to GET and SET it. As with everything in Redis, a failover may
// forget the last writes, and the mark with them.
func Fence(ctx context.Context, client rueidis.Client, term regent.Term, script string, keys, args []string) (rueidis.RedisMessage, error) {
	fail := func(err error) (rueidis.RedisMessage, error) {
		return rueidis.RedisMessage{}, fmt.Errorf("fence %q at epoch %d: %w", term.Election, term.Epoch, err)
	}
	token := term.Token()
	if err := token.Validate(); err != nil {
		return fail(err)
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
		append(args[:len(args):len(args)], markOf(token))).ToMessage()
	if rueidis.IsRedisNil(err) { // the script returned nothing
		err = nil
	}
	if err == nil {
		return msg, nil
	}
	if answer, ok := rueidis.IsRedisErr(err); ok {
		if newest, ok := beatenBy(answer.Error()); ok {
			if err := newest.Validate(); err != nil {
				return fail(fmt.Errorf("key %s: %w; "+
					"if nobody has led in it, set the key to the election's present epoch", guard, err))
			}
			return fail(&regent.StaleError{
				Epoch: token.Epoch, Term: token.Term, Newest: newest.Epoch, NewestTerm: newest.Term})
		}
	}
	return fail(err)
}

// markOf returns a token as the guard's key keeps it.
func markOf(t regent.Token) string {
	mark := strconv.FormatUint(t.Epoch, 10)
	if t.Term != "" {
		mark += " " + t.Term
	}
	return mark
}

// beatenBy returns the token that an error of the script names; ok is false if it is another error.
func beatenBy(answer string) (newest regent.Token, ok bool) {
	_, mark, found := strings.Cut(answer, "STALE ")
	if !found {
		return regent.Token{}, false
	}

	epoch, term, _ := strings.Cut(strings.TrimSpace(mark), " ")
	n, err := strconv.ParseUint(epoch, 10, 64)
	return regent.Token{Epoch: n, Term: term}, err == nil
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
