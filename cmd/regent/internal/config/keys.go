package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// Key is a key of the configuration.
type Key struct {
	Name string // as in files and errors: leaseDuration
	Doc  string // a phrase that describes it
	// field returns a pointer to the value. The type of the pointer is the type of the key.
	field     func(*Settings) any
	byProfile bool
}

// Flag returns the name of the flag: lease-duration.
func (k Key) Flag() string { return strings.ReplaceAll(snakeCase(k.Name), "_", "-") }

// Variable returns the name of the variable: REGENT_LEASE_DURATION.
func (k Key) Variable() string {
	return prefix + strings.ToUpper(snakeCase(k.Name))
}

// Type returns the type of the value: text, boolean, integer, number, duration, durations, labels or level.
func (k Key) Type() string { return typeName(k.field(&Settings{})) }

// Default returns the default in a profile, or nothing if there is no such profile. The key profile has the same
// default in all.
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

// show returns the value without its secrets.
func (k Key) show(s *Settings) string { return conceal(k.Name, format(k.field(s))) }

// conceal returns the value of a key without its secrets.
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

// defaults returns the settings of a profile, and false if there is no such profile.
func defaults(profile string) (*Settings, bool) {
	s := &Settings{
		Profile:   profile,
		Election:  "coordinator",
		Store:     "sqlite:regent.db",
		Listen:    "127.0.0.1:7468",
		Reaper:    true,
		LogFormat: "text",
		Worker:    true,
		Tasks:     64,
		TaskBytes: 32 << 20,
		DataDir:   "regent-data",

		RetireAfter: 24 * time.Hour,
	}
	switch profile {
	case "cluster":
		s.Regent = regent.Cluster()
	case "lock":
		s.Regent = regent.Lock()
		s.Election = "stargate:leader"
	case "fleet":
		s.Regent = regent.Fleet()
	default:
		return s, false
	}

	return s, true
}

// Keys returns every key: those of the node first, then those that the profiles set.
func Keys() []Key {
	node := []Key{
		{
			Name: "profile", field: func(s *Settings) any { return &s.Profile },
			Doc: "the set of defaults: cluster, lock or fleet",
		},
		{
			Name: "config", field: func(s *Settings) any { return &s.File },
			Doc: "the YAML file to read; it may hold any key but this",
		},
		{
			Name: "store", field: func(s *Settings) any { return &s.Store },
			Doc: "where the registers are: " + strings.Join(Schemes(), ", "),
		},
		{
			Name: "node", field: func(s *Settings) any { return &s.Node },
			Doc: "the member's ID, one per process; hostname-pid if empty",
		},
		{
			Name: "listen", field: func(s *Settings) any { return &s.Listen },
			Doc: "the host:port to serve on; port 0 takes any",
		},
		{
			Name: "advertise", field: func(s *Settings) any { return &s.Advertise },
			Doc: "the host:port that other nodes get; that of listen if empty, or the address of the default " +
				"route if listen means all addresses",
		},
		{
			Name: "podLabel", field: func(s *Settings) any { return &s.PodLabel },
			Doc: "with a store kube://: the name of this node's pod, which gets the label regent.dev/role: leader " +
				"while the node leads, and standby afterwards; none if empty",
		},
		{
			Name: "sidecar", field: func(s *Settings) any { return &s.Sidecar },
			Doc: "a further host:port that answers GET / with the leader's name alone, as the leader-elector sidecar " +
				"of Kubernetes did; none if empty",
		},
		{
			Name: "token", field: func(s *Settings) any { return &s.Token },
			Doc: "the cluster token: write requests and event streams must carry it, and nodes sign their " +
				"requests with it",
		},
		{
			Name: "tokenFile", field: func(s *Settings) any { return &s.TokenFile },
			Doc: "a regular file that holds the cluster token, instead of token; read again at SIGHUP",
		},
		{
			Name: "tlsCert", field: func(s *Settings) any { return &s.TLSCert },
			Doc: "the certificate file to serve TLS with; needs tlsKey",
		},
		{Name: "tlsKey", Doc: "the key file of tlsCert", field: func(s *Settings) any { return &s.TLSKey }},
		{
			Name: "tlsCA", field: func(s *Settings) any { return &s.TLSCA },
			Doc: "a file of certificates, one of which must have signed those of the other nodes; such a node " +
				"needs no token",
		},
		{
			Name: "insecure", field: func(s *Settings) any { return &s.Insecure },
			Doc: "listen beyond loopback with neither token nor TLS",
		},
		{
			Name: "reaper", field: func(s *Settings) any { return &s.Reaper },
			Doc: "start the companion process that releases the election of a dead leader at once",
		},
		{Name: "worker", Doc: "take tasks from the leader", field: func(s *Settings) any { return &s.Worker }},
		{
			Name: "workerTasks", field: func(s *Settings) any { return &s.Tasks },
			Doc: "how many tasks a worker runs at once",
		},
		{
			Name: "workerBytes", field: func(s *Settings) any { return &s.TaskBytes },
			Doc: "how many bytes of results a worker keeps; a task whose result was dropped is still not run twice",
		},
		{
			Name: "dataDir", field: func(s *Settings) any { return &s.DataDir },
			Doc: "where a worker keeps the highest epoch that it has seen, and its journal; each node has a " +
				"directory below it",
		},
		{
			Name: "execPolls", field: func(s *Settings) any { return &s.ExecPolls },
			Doc: "let polls run programs on this node, with its rights; needs token, tokenFile or tlsCA; " +
				"whoever can write the store can define such polls",
		},
		{
			Name: "retireAfter", field: func(s *Settings) any { return &s.RetireAfter },
			Doc: "how long nobody may have used a register before the leader removes it: that of an election, or of " +
				"a member that has left or died; at least 10m; 0s keeps all of them",
		},
		{Name: "logFormat", Doc: "text or json", field: func(s *Settings) any { return &s.LogFormat }},
		{
			Name: "logLevel", field: func(s *Settings) any { return &s.LogLevel },
			Doc: "the lowest level that is logged: debug, info, warn or error",
		},
		{
			Name: "eventPrefix", field: func(s *Settings) any { return &s.EventPrefix },
			Doc: "put before the names of events at /v1/events: serviceradar makes coordinator:became_leader " +
				"serviceradar:coordinator:became_leader",
		},
	}

	member := memberKeys()
	for i := range member {
		member[i].byProfile = true
	}

	return append(node, member...)
}

// memberKeys returns the keys that profiles set: the election, and each field of [regent.Config].
func memberKeys() []Key {
	return []Key{
		{Name: "election", Doc: "the election to campaign in", field: func(s *Settings) any { return &s.Election }},
		{
			Name: "leaseDuration", field: func(s *Settings) any { return &s.Regent.LeaseDuration },
			Doc: "how long a heartbeat counts, by the clock of whoever watches it",
		},
		{
			Name: "ownLease", field: func(s *Settings) any { return &s.Regent.OwnLease },
			Doc: "renew each election by itself, not by the member's heartbeat",
		},
		{
			Name: "renewInterval", field: func(s *Settings) any { return &s.Regent.RenewInterval },
			Doc: "how often an election with a lease of its own is renewed; without ownLease that of heartbeatInterval",
		},
		{
			Name: "renewBackoff", field: func(s *Settings) any { return &s.Regent.RenewBackoff },
			Doc: "the waits before the retries of a failed renewal",
		},
		{
			Name: "stopTimeout", field: func(s *Settings) any { return &s.Regent.StopTimeout },
			Doc: "how long duties may take to stop",
		},
		{
			Name: "electionInterval", field: func(s *Settings) any { return &s.Regent.ElectionInterval },
			Doc: "how often a standby reads the election when no notification comes",
		},
		{
			Name: "electionIntervalMax", field: func(s *Settings) any { return &s.Regent.ElectionIntervalMax },
			Doc: "the longest that electionInterval grows to, by doubling, while nothing changes; at least " +
				"electionInterval",
		},
		{
			Name: "takeoverDelay", field: func(s *Settings) any { return &s.Regent.TakeoverDelay },
			Doc: "how long a standby waits after the lease of a silent leader has expired",
		},
		{
			Name: "heartbeatInterval", field: func(s *Settings) any { return &s.Regent.HeartbeatInterval },
			Doc: "how often a member renews its lease",
		},
		{
			Name: "workerTimeout", field: func(s *Settings) any { return &s.Regent.WorkerTimeout },
			Doc: "when a silent member that keeps no election alive counts as gone; that of leaseDuration in " +
				"cluster and fleet",
		},
		{
			Name: "startupJitterMin", field: func(s *Settings) any { return &s.Regent.StartupJitterMin },
			Doc: "the shortest wait before the first request",
		},
		{
			Name: "startupJitterMax", field: func(s *Settings) any { return &s.Regent.StartupJitterMax },
			Doc: "the longest wait before the first request",
		},
		{
			Name: "rank", field: func(s *Settings) any { return &s.Regent.Rank },
			Doc: "who should lead: first, lexicographic, priority, latency, or region: followed by regions, the best " +
				"first",
		},
		{
			Name: "register", field: func(s *Settings) any { return &s.Regent.Register },
			Doc: "send heartbeats as a member even if no election and no rank needs them",
		},
		{
			Name: "eligible", field: func(s *Settings) any { return not{&s.Regent.Ineligible} },
			Doc: "campaign, and lead if elected",
		},
		{
			Name: "priority", field: func(s *Settings) any { return &s.Regent.Priority },
			Doc: "under rank priority, the member with the highest number should lead",
		},
		{Name: "region", Doc: "where the member runs", field: func(s *Settings) any { return &s.Regent.Region }},
		{
			Name: "labels", field: func(s *Settings) any { return &s.Regent.Labels },
			Doc: "further facts about the member: name=value,name=value",
		},
		{
			Name: "preempt", field: func(s *Settings) any { return &s.Regent.Preempt },
			Doc: "ask a leader of lower rank to hand over",
		},
		{
			Name: "epochFencingEnabled", field: func(s *Settings) any { return not{&s.Regent.EpochFencingOff} },
			Doc: "fences refuse work of older epochs",
		},
		{
			Name: "epochGracePeriod", field: func(s *Settings) any { return &s.Regent.EpochGracePeriod },
			Doc: "how long idempotent work of the last epoch is still accepted",
		},
		{
			Name: "contentionDetectionEnabled", field: func(s *Settings) any {
				return not{&s.Regent.ContentionDetectionOff}
			},
			Doc: "report heartbeats that take too long",
		},
		{
			Name: "contentionThreshold", field: func(s *Settings) any { return &s.Regent.ContentionThreshold },
			Doc: "how many heartbeat intervals are too long for a heartbeat",
		},
	}
}

// Schemes returns how the address of a store can begin: one for each driver of this binary.
func Schemes() []string {
	all := []string{"sqlite:", "memory:", "redis://", "rediss://", "postgres://", "postgresql://", "etcd://", "nats://",
		"kube://", "s3://"}
	if hasEmbedded {
		all = append(all, embeddedScheme)
	}
	return all
}
