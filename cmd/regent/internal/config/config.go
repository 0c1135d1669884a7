// Package config reads the configuration of a node from flags, variables, a YAML file and a profile, in this order of
// precedence.
//
// One table of keys, [Keys], has the name of each key in each place, its type, its default in each profile and its
// description. The package does not read the process's own arguments, environment or files: they are passed in.
//
//	settings, err := config.Load(args, os.Environ(), config.ReadFile)
//
// A variable that is empty counts as not set. A value is checked only where it takes effect: a bad one in the file does
// no harm while a flag overrides it.
package config

import (
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// ErrUsage means that the command line makes no sense. Its exit code is 64.
var ErrUsage = errors.New("see 'regent help config'")

// Error is a setting that cannot be used, and where it comes from. Its exit code is 78. If a value breaks a rule, it
// wraps a [regent.ConfigError]. Several errors are joined, one a line.
type Error struct {
	Origin string // as in [Settings.Origin]
	Err    error
}

func (e *Error) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns the error without its origin.
func (e *Error) Unwrap() error { return e.Err }

// Settings is a complete configuration that breaks no rule. Printed as a whole it shows no secret; Token and Store by
// themselves do (see [Redact]).
type Settings struct {
	Profile   string // cluster, lock or fleet
	File      string // the configuration file, if any
	Election  string
	Store     string // an address
	Node      string // the member's ID; empty for the library's default
	Listen    string // host:port
	Advertise string // host:port that other nodes get; Listen unless given
	PodLabel  string // the pod of this node, whose label says whether it leads; empty for none
	Sidecar   string // host:port of the listener that names the leader alone; empty for none
	Token     string // of token, or of tokenFile
	TokenFile string
	TLSCert   string
	TLSKey    string
	Insecure  bool
	Reaper    bool
	LogFormat string // text or json
	LogLevel  slog.Level

	EventPrefix string // of the names of events; empty for none

	Worker    bool
	DataDir   string // of the worker's journal and epoch
	ExecPolls bool
	Tasks     int // how many a worker runs at once
	TaskBytes int // how many bytes of results a worker keeps
	TLSCA     string
	Regent    regent.Config

	RetireAfter time.Duration // after which the leader removes registers that nobody uses; 0 for never

	Polls  []poll.Poll // of the file
	Duties []Duty      // of the file, in its order

	HealthCheck *HealthCheck // of the file; nil if it has none

	Args     []string // what follows the flags
	Warnings []string // to be logged at start
	Mistyped []string // variables that a command which asks a node or a store ignores; a node refuses them

	origins map[string]origin
	entries []entry
}

// origin is the place that the value of a key comes from.
type origin struct {
	text    string
	given   bool   // by a flag, a variable or the file
	follows string // the key that the value was derived from
}

// Load reads a whole configuration: the flags in args, the variables in environ, and the file that they name, if any.
// It returns [pflag.ErrHelp] for -h and --help.
func Load(args, environ []string, readFile func(name string) ([]byte, error)) (*Settings, error) {
	set := pflag.NewFlagSet("regent", pflag.ContinueOnError)
	source := Flags(set)

	if err := Parse(set, args); err != nil {
		return nil, err
	}
	return source.Load(environ, readFile)
}

// Origin returns where the value of a key comes from: "flag --listen", "variable REGENT_LISTEN", "file regent.yaml:12",
// "profile cluster", "follows heartbeatInterval", or "default".
func (s *Settings) Origin(key string) string { return s.origins[key].text }

// Given reports whether a flag, a variable or the file sets the key.
func (s *Settings) Given(key string) bool { return s.origins[key].given }
