package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

//go:embed probe.lua
var probeLua string

// The oldest supported version.
const oldestMajor, oldestMinor = 6, 2

// check checks the server once. It returns an error for what makes Regent fail, and warnings for what makes Redis lose
// writes. It subscribes to channel for a moment: that must not be the channel that the store listens to. It calls pause
// between its steps.
func (s *Store) check(ctx context.Context, channel string, pause func()) (warnings []string, err error) {
	if err := s.checkVersion(ctx); err != nil {
		return nil, err
	}

	pause()
	if err := s.checkPermissions(ctx, channel); err != nil {
		return nil, err
	}

	pause()
	warnings, err = s.checkIdentity(ctx)
	if err != nil {
		return nil, err
	}

	pause()
	for node, client := range s.client.Nodes() {
		if !s.cluster {
			node = ""
		}
		warnings = append(warnings, s.checkNode(ctx, node, client)...)
	}

	slices.Sort(warnings)
	return warnings, nil
}

// checkTimeout bounds a check that runs in the background.
const checkTimeout = 10 * time.Second

// checkLater checks the server in several steps over that time, unless the store is closed before, and passes what it
// finds to warn.
func (s *Store) checkLater(over time.Duration, warn func(string)) {
	pause := func() {
		t := time.NewTimer(over / 4)
		defer t.Stop()

		select {
		case <-t.C:
		case <-s.ctx.Done():
		}
	}

	pause()

	ctx, cancel := context.WithTimeout(s.ctx, over+checkTimeout)
	defer cancel()

	warnings, err := s.check(ctx, s.channel+":probe", pause)
	if err != nil {
		warnings = append(warnings, err.Error())
	}

	if warn == nil || s.closed.Load() {
		return
	}

	for _, w := range warnings {
		warn(w)
	}
}

func (s *Store) checkVersion(ctx context.Context) error {
	hello, err := s.do(ctx, s.client.B().Arbitrary("HELLO").Build()).AsStrMap()
	if err != nil {
		if _, ok := rueidis.IsRedisErr(err); ok {
			return refusef("the server is too old: it must be Redis %d.%d "+
				"or later, or Valkey (it answers HELLO with %q)",
				oldestMajor, oldestMinor, err.Error())
		}
		return s.explain(ctx, err)
	}

	version := hello["version"]
	parts := append(strings.Split(version, "."), "0")
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("the server has version %q: it must be Redis %d.%d or later, or Valkey", version,
			oldestMajor, oldestMinor)
	case major < oldestMajor || major == oldestMajor && minor < oldestMinor:
		return refusef("the server is too old: version %s, it must be Redis %d.%d or later, or Valkey", version,
			oldestMajor, oldestMinor)
	case hello["mode"] == "sentinel":
		return refusef("the server is a sentinel: add ?sentinel=NAME to the address, with the name of the primary " +
			"that it monitors")
	case hello["mode"] == "cluster" && !s.cluster:
		return refusef("the server is part of a cluster: add ?cluster=true to the address")
	}

	return nil
}

// checkPermissions runs every command once, on keys that nothing else uses.
func (s *Store) checkPermissions(ctx context.Context, channel string) error {
	r := s.getRequest("regent/probe")
	if !s.cluster {
		r.keys = append(r.keys, s.index)
	}

	own := s.channelOf(driver.Topic{Name: "regent/probe"})
	r.args = append(r.args, s.channel, s.publishCommand(), own)
	refused, err := s.do(ctx, s.command(newScript(probeLua), r, true)).AsStrSlice()
	if err == nil { // by its hash, as all later calls do
		if err = s.eval(ctx, s.get, s.getRequest("regent/probe")).Error(); rueidis.IsRedisNil(err) {
			err = nil
		}
	}

	if err == nil && s.cluster {
		err = s.do(ctx, s.client.B().Arbitrary("ZADD").Keys(s.index).Args("XX", "0", "").Build()).Error()
	}
	if err == nil {
		err = s.do(ctx, s.client.B().Zrange().Key(s.index).Min("[").Max("(").Bylex().Limit(0, 1).Build()).Error()
	}

	if err == nil {
		err = s.checkSubscriptions(ctx, channel, own)
	}

	if err == nil && s.addr.replicas > 0 {
		err = s.onOneConnection(ctx, s.client.B().Arbitrary("EXISTS").Keys(r.keys[0]).Build(),
			s.client.B().Wait().Numreplicas(0).Timeout(1).Build())[1].Error()
	}

	if _, ok := rueidis.IsRedisErr(err); ok {
		refused = append(refused, err.Error())
	} else if err != nil {
		return s.explain(ctx, err)
	}

	slices.Sort(refused)
	switch all := strings.Join(slices.Compact(refused), "; "); {
	case len(refused) == 0:
		return nil
	case strings.Contains(all, "READONLY"):
		return driver.WithProblem(driver.ProblemReadOnly, errors.New("the server is a replica, which accepts no "+
			"writes: use the primary's address, or the sentinels with ?sentinel=NAME"))
	case strings.Contains(all, "WRONGTYPE"):
		return withProblem(all, refusef("another program uses a key of Regent, %s or one that begins with "+
			"%sregent/probe: add ?prefix=NAME to the address (%s)", s.index, s.addr.prefix, all))
	case !slices.ContainsFunc(denials(), func(words string) bool { return strings.Contains(all, words) }):
		// Out of memory, or without its replicas: it may recover.
		return withProblem(all, fmt.Errorf("the server accepts no writes now: %s", all))
	default:
		who := s.addr.user
		if who == "" {
			who = "default"
		}
		return withProblem(all, refusef("user %q lacks permissions (docs/STORES.md has the ACL line): %s", who, all))
	}
}

// checkSubscriptions subscribes to a shared channel and to the channel of a register.
func (s *Store) checkSubscriptions(ctx context.Context, shared, own string) error {
	// In one request, so that both go to the same node.
	err := s.doMulti(ctx, []rueidis.Completed{
		s.client.B().Subscribe().Channel(shared).Build(), s.client.B().Unsubscribe().Channel(shared).Build(),
	})[0].Error()

	if err == nil && s.cluster {
		err = s.doMulti(ctx, []rueidis.Completed{
			s.client.B().Ssubscribe().Channel(own).Build(), s.client.B().Sunsubscribe().Channel(own).Build(),
		})[0].Error()
		if noShards(err) {
			return nil
		}
	} else if err == nil {
		err = s.doMulti(ctx, []rueidis.Completed{
			s.client.B().Subscribe().Channel(own).Build(), s.client.B().Unsubscribe().Channel(own).Build(),
		})[0].Error()
	}
	return err
}

// identityLua returns the server's ID in the same way as the other scripts.
var identityLua = serverLua + "return server()"

// checkIdentity warns if scripts cannot read the ID of their server.
func (s *Store) checkIdentity(ctx context.Context) (warnings []string, err error) {
	r := s.getRequest("regent/probe")
	id, err := s.do(ctx, s.command(script{text: identityLua}, r, true)).ToString()
	if err != nil {
		return nil, s.explain(ctx, err)
	}

	if id == "" {
		warnings = append(warnings, "scripts may not call INFO: in profile lock a failover or restart that loses "+
			"renewals lets a lease expire while its holder still leads; allow +info")
	}
	return warnings, nil
}

// checkNode returns warnings about a node that may lose writes.
func (s *Store) checkNode(ctx context.Context, node string, client rueidis.Client) (warnings []string) {
	warn := func(format string, args ...any) {
		if node != "" {
			format = node + ": " + format
		}
		warnings = append(warnings, fmt.Sprintf(format, args...))
	}

	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if err != nil {
		warn("whether the server evicts keys, keeps them on disk and has replicas could not be checked: %v", err)
		return warnings
	}

	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}

	s.checkReplication(info, warn)
	if policy := info["maxmemory_policy"]; policy != "noeviction" && policy != "" {
		warn("maxmemory-policy is %s: it must be noeviction, or a full server deletes registers and epochs start "+
			"again at 1", policy)
	}

	checkDisk(ctx, client, info, warn)
	return warnings
}

// checkReplication warns of a primary that accepts writes without its replicas. Redis shows min_slaves_good_slaves only
// while min-replicas-to-write and min-replicas-max-lag are both above 0.
func (s *Store) checkReplication(info map[string]string, warn func(string, ...any)) {
	replicated := s.addr.sentinel != "" || info["connected_slaves"] != "0" && info["connected_slaves"] != ""
	_, waits := info["min_slaves_good_slaves"]
	if info["role"] == "master" && replicated && !waits {
		warn("min-replicas-to-write is 0: a primary that is cut off from its replicas accepts writes that a " +
			"failover then loses, so that two members may lead at once; set min-replicas-to-write 1 and " +
			"min-replicas-max-lag 2")
	}
}

// checkDisk warns of a server that loses writes when it restarts.
func checkDisk(ctx context.Context, client rueidis.Client, info map[string]string, warn func(string, ...any)) {
	if info["aof_enabled"] == "1" {
		return
	}

	save, err := client.Do(ctx, client.B().ConfigGet().Parameter("save").Build()).AsStrMap()
	switch {
	case err != nil:
		warn("appendonly is no, and whether snapshots are taken "+
			"could not be checked: a restart may lose every epoch (%v)", err)
	case save["save"] == "":
		warn("the server keeps nothing on disk (appendonly no, save " +
			"\"\"): a restart loses every epoch; set appendonly yes")
	default:
		warn("the server keeps snapshots only (appendonly no, save %q): a crash loses the epochs since the last; "+
			"set appendonly yes", save["save"])
	}
}

// CheckElection checks whether another program uses the keys of an election. A key that holds another type than a
// string is an [driver.ErrRefused]. A string without an expiry is a warning: it may be another program's lock, and
// Regent respects it until it is deleted.
func (s *Store) CheckElection(ctx context.Context, name string) (warning string, err error) {
	const advice = "choose another name for the election, or add ?prefix=NAME to the store's address"
	key := string(s.appendKey(nil, name))

	l, err := s.Get(ctx, name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return "", nil
	case errors.Is(err, errUnreadable) && !errors.Is(err, driver.ErrRefused):
		return "", refusef("election %q: the key {%s}:regent holds data of another program: %s: %w", name, key,
			advice, err)
	case err != nil:
		return "", err
	case l.Holder.Incarnation != foreignIncarnation:
		return "", nil
	case l.Holder.ID == otherType:
		return "", refusef("election %q: the key %s holds another program's data (WRONGTYPE): %s", name, key, advice)
	}

	if _, mark, _ := strings.Cut(l.Rev, "~"); strings.Contains(mark, ".") {
		return "", nil // it expires
	}
	return fmt.Sprintf("election %q: the key %s holds %.40q without an expiry, from another program: nobody can "+
		"lead before it is deleted; if it is not a lock, %s", name, key, l.Holder.ID, advice), nil
}

// otherType is what get.lua returns as the holder of an election whose key is not a string.
const otherType = "(not a string)"
