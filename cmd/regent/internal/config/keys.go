package config

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/regentd/regent"
)

// Key is one row of the table: a thing that can be configured.
type Key struct {
	Name string // as in files and errors: leaseDuration
	Doc  string // what it does, in a phrase
	// field points to where the value is kept; the type of the pointer is the type of the key.
	field     func(*Settings) any
	byProfile bool
}

// Flag returns the name of the flag: lease-duration.
func (k Key) Flag() string {
	var b strings.Builder
	small := false
	for _, r := range k.Name {
		if unicode.IsUpper(r) && small { // of several capitals, the first begins a word
			b.WriteByte('-')
		}
		small = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Variable returns the name of the variable: REGENT_LEASE_DURATION.
func (k Key) Variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(k.Flag(), "-", "_"))
}

// Type returns what a value is: text, boolean, integer, number, duration, durations, labels or level.
func (k Key) Type() string { return typeName(k.field(&Settings{})) }

// Default returns the default in a profile, or nothing if there is no such profile. That of the key profile is the same in all.
func (k Key) Default(profile string) string {
	if k.Name == "profile" {
		profile = Profiles()[0]
	}
	s, ok := defaults(profile)
	if !ok {
		return ""
	}
	return format(k.field(s))
}

// show returns the value as it may be seen by anybody.
func (k Key) show(s *Settings) string { return conceal(k.Name, format(k.field(s))) }

// conceal hides what is secret in the value of a key.
func conceal(key, value string) string {
	switch {
	case key == "token" && value != "":
		return "(set)"
	case key == "store":
		return Redact(value)
	}
	return value
}

// quote returns a value as errors show it.
func quote(key, value string) string {
	if key == "token" && value != "" {
		return conceal(key, value)
	}
	return strconv.Quote(conceal(key, value))
}

// Profiles returns the names of the profiles, the default first.
func Profiles() []string { return []string{"cluster", "lock", "fleet"} }

// defaults returns what a profile sets.
func defaults(profile string) (*Settings, bool) {
	s := &Settings{
		Profile: profile, Election: "coordinator", Store: "sqlite:regent.db", Listen: "127.0.0.1:7468", Reaper: true, LogFormat: "text", Worker: true, Tasks: 64, TaskBytes: 32 << 20, DataDir: "regent-data",
	}
	switch profile {
	case "cluster":
		s.Regent = regent.Cluster()
	case "lock":
		s.Regent, s.Election = regent.Lock(), "stargate:leader"
	case "fleet":
		s.Regent = regent.Fleet()
	default:
		return s, false
	}
	return s, true
}

// Keys returns the table: what belongs to the node first, then what the profiles set.
func Keys() []Key {
	node := []Key{
		{Name: "profile", Doc: "which set of defaults: cluster, lock or fleet", field: func(s *Settings) any { return &s.Profile }},
		{Name: "config", Doc: "the YAML file to read; it holds any key but this", field: func(s *Settings) any { return &s.File }},
		{Name: "store", Doc: "where the registers are: " + strings.Join(Schemes(), ", "), field: func(s *Settings) any { return &s.Store }},
		{Name: "node", Doc: "the member's ID, one per process; hostname-pid if empty", field: func(s *Settings) any { return &s.Node }},
		{Name: "listen", Doc: "the host:port to serve on; port 0 takes any", field: func(s *Settings) any { return &s.Listen }},
		{Name: "advertise", Doc: "the host:port that others are told; that of listen if empty, or the address of the default route if listen stands for all", field: func(s *Settings) any { return &s.Advertise }},
		{Name: "token", Doc: "the cluster token, which write requests and event streams must carry, and which nodes sign their requests with", field: func(s *Settings) any { return &s.Token }},
		{Name: "tokenFile", Doc: "a regular file that holds the cluster token, instead of token; read again at SIGHUP", field: func(s *Settings) any { return &s.TokenFile }},
		{Name: "tlsCert", Doc: "the certificate file to serve TLS with; needs tlsKey", field: func(s *Settings) any { return &s.TLSCert }},
		{Name: "tlsKey", Doc: "the key file of tlsCert", field: func(s *Settings) any { return &s.TLSKey }},
		{Name: "tlsCA", Doc: "a file of certificates that the other nodes' must be signed by; a node so proved needs no token", field: func(s *Settings) any { return &s.TLSCA }},
		{Name: "insecure", Doc: "listen beyond loopback with neither token nor TLS", field: func(s *Settings) any { return &s.Insecure }},
		{Name: "reaper", Doc: "start the companion process that frees the seat of a dead leader at once", field: func(s *Settings) any { return &s.Reaper }},
		{Name: "worker", Doc: "take tasks from the leader", field: func(s *Settings) any { return &s.Worker }},
		{Name: "workerTasks", Doc: "how many tasks a worker runs at once", field: func(s *Settings) any { return &s.Tasks }},
		{Name: "workerBytes", Doc: "how many bytes of results a worker keeps; older ones lose what they returned, and are still not run twice",
			field: func(s *Settings) any { return &s.TaskBytes }},
		{Name: "dataDir", Doc: "where a worker keeps the highest epoch that it has seen, and its journal; below it a directory for each node", field: func(s *Settings) any { return &s.DataDir }},
		{Name: "execPolls", Doc: "let polls run programs on this node, with its rights; needs token, tokenFile or tlsCA; " +
			"who can write the store can define such polls", field: func(s *Settings) any { return &s.ExecPolls }},
		{Name: "logFormat", Doc: "text or json", field: func(s *Settings) any { return &s.LogFormat }},
		{Name: "logLevel", Doc: "the least that is logged: debug, info, warn or error", field: func(s *Settings) any { return &s.LogLevel }},
	}
	member := memberKeys()
	for i := range member {
		member[i].byProfile = true
	}
	return append(node, member...)
}

// memberKeys are the rows of the profile table: the election, and each field of [regent.Config].
func memberKeys() []Key {
	return []Key{
		{Name: "election", Doc: "the seat to campaign for", field: func(s *Settings) any { return &s.Election }},
		{Name: "leaseDuration", Doc: "how long a heartbeat counts for those who watch it", field: func(s *Settings) any { return &s.Regent.LeaseDuration }},
		{Name: "ownLease", Doc: "renew each seat by itself, not by the member's heartbeat", field: func(s *Settings) any { return &s.Regent.OwnLease }},
		{Name: "renewInterval", Doc: "how often a seat with a lease of its own is renewed; without one, that of heartbeatInterval",
			field: func(s *Settings) any { return &s.Regent.RenewInterval }},
		{Name: "renewBackoff", Doc: "the waits between the tries of a failing renewal", field: func(s *Settings) any { return &s.Regent.RenewBackoff }},
		{Name: "stopTimeout", Doc: "how long duties may take to stop", field: func(s *Settings) any { return &s.Regent.StopTimeout }},
		{Name: "electionInterval", Doc: "how often a standby looks at the seat, with no hint", field: func(s *Settings) any { return &s.Regent.ElectionInterval }},
		{Name: "electionIntervalMax", Doc: "what electionInterval doubles to while nothing changes; at least electionInterval",
			field: func(s *Settings) any { return &s.Regent.ElectionIntervalMax }},
		{Name: "takeoverDelay", Doc: "what a silent leader gets on top of its lease", field: func(s *Settings) any { return &s.Regent.TakeoverDelay }},
		{Name: "heartbeatInterval", Doc: "how often a member says that it lives", field: func(s *Settings) any { return &s.Regent.HeartbeatInterval }},
		{Name: "workerTimeout", Doc: "when a silent member counts as gone, where no seat hangs on it; that of leaseDuration in cluster and fleet",
			field: func(s *Settings) any { return &s.Regent.WorkerTimeout }},
		{Name: "startupJitterMin", Doc: "the least wait before the first request", field: func(s *Settings) any { return &s.Regent.StartupJitterMin }},
		{Name: "startupJitterMax", Doc: "the longest wait before the first request", field: func(s *Settings) any { return &s.Regent.StartupJitterMax }},
		{Name: "rank", Doc: "who should win: first, lexicographic, priority, or region: and regions, the best first", field: func(s *Settings) any { return &s.Regent.Rank }},
		{Name: "register", Doc: "heartbeat as a member even where no seat and no rank needs it", field: func(s *Settings) any { return &s.Regent.Register }},
		{Name: "eligible", Doc: "may lead", field: func(s *Settings) any { return &s.Regent.Eligible }},
		{Name: "priority", Doc: "the higher, the better, under rank priority", field: func(s *Settings) any { return &s.Regent.Priority }},
		{Name: "region", Doc: "where the member runs", field: func(s *Settings) any { return &s.Regent.Region }},
		{Name: "labels", Doc: "what else the member says of itself: name=value,name=value", field: func(s *Settings) any { return &s.Regent.Labels }},
		{Name: "preempt", Doc: "ask a leader of lower rank to hand over", field: func(s *Settings) any { return &s.Regent.Preempt }},
		{Name: "epochFencingEnabled", Doc: "fences refuse older epochs", field: func(s *Settings) any { return &s.Regent.EpochFencingEnabled }},
		{Name: "epochGracePeriod", Doc: "how long idempotent work of the last epoch is still taken", field: func(s *Settings) any { return &s.Regent.EpochGracePeriod }},
		{Name: "contentionDetectionEnabled", Doc: "watch how long heartbeats take", field: func(s *Settings) any { return &s.Regent.ContentionDetectionEnabled }},
		{Name: "contentionThreshold", Doc: "how many heartbeat intervals are too long", field: func(s *Settings) any { return &s.Regent.ContentionThreshold }},
	}
}

// Schemes returns how a store's address can begin: what this binary has a driver for.
func Schemes() []string { return []string{"sqlite:", "memory:", "redis://", "rediss://"} }
