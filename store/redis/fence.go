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

// FenceScript is the script that [Fence] puts before yours. To use it with another client, append the guard's key to
// KEYS, and "EPOCH TERM" to ARGV: the epoch in decimal, and the term's incarnation. It refuses an older epoch, and
// another term with the same epoch, with the error "STALE EPOCH TERM", which carries the newest token. It removes the
// key and the argument again, so your script sees only its own.
//
//go:embed fence.lua
var FenceScript string

// Fence runs your Lua script on any Redis, if no newer term has run one there. The check, the script and the new mark
// are one atomic step. If the epoch is older than the mark, or the mark is another term with the same epoch, Fence
// returns a [regent.StaleError] and nothing was written.
//
//	script := `return redis.call('SET', KEYS[1], ARGV[1])`
//	_, err := redis.Fence(ctx, client, term, script, []string{"report"}, []string{"done"})
//
// The mark is the highest epoch and its term, as "EPOCH TERM" in the key regent:fence:ELECTION. It holds for the whole
// database. A mark of an older version of Regent, which is the epoch alone, is understood; the older version cannot
// read the new mark, and refuses to write. In a cluster a script reaches only one hash slot: there the key is
// {TAG}:regent:fence:ELECTION, where TAG is the hash tag of the first key, or that key. So give all keys that a leader
// writes one tag. Do not delete the key, and do not let it be evicted. The client's user needs GET and SET on it. As
// with everything in Redis, a failover may lose the last writes, and the mark with them.
func Fence(
	ctx context.Context, client rueidis.Client, term regent.Term, script string, keys, args []string,
) (rueidis.RedisMessage, error) {
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
		if newest, ok := newestOf(answer.Error()); ok {
			if err := newest.Validate(); err != nil {
				return fail(fmt.Errorf("key %s: %w; "+
					"if no term had this epoch, set the key to the election's current epoch", guard, err))
			}
			return fail(&regent.StaleError{
				Epoch: token.Epoch, Term: token.Term, Newest: newest.Epoch, NewestTerm: newest.Term})
		}
	}

	return fail(err)
}

// markOf returns a token in the form of the guard's key.
func markOf(t regent.Token) string {
	mark := strconv.FormatUint(t.Epoch, 10)
	if t.Term != "" {
		mark += " " + t.Term
	}
	return mark
}

// newestOf returns the token in an error of the script; ok is false if it is another error.
func newestOf(answer string) (newest regent.Token, ok bool) {
	_, mark, found := strings.Cut(answer, "STALE ")
	if !found {
		return regent.Token{}, false
	}

	epoch, term, _ := strings.Cut(strings.TrimSpace(mark), " ")
	n, err := strconv.ParseUint(epoch, 10, 64)
	return regent.Token{Epoch: n, Term: term}, err == nil
}

// hashTag returns the part of the first key that decides its hash slot, in a form that can stand in braces.
func hashTag(keys []string) (string, error) {
	if len(keys) == 0 {
		return "", fmt.Errorf("in a Redis cluster a fenced script needs at least one key")
	}

	if _, rest, ok := strings.Cut(keys[0], "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag, nil
		}
	}

	if strings.Contains(keys[0], "}") {
		return "", fmt.Errorf("key %q: in a cluster a key with } must have a hash tag, such as {%s}", keys[0],
			strings.NewReplacer("{", "", "}", "").Replace(keys[0]))
	}
	return keys[0], nil
}
