// Package config reads how a node is configured: from flags, variables, a YAML file and a profile, in this order of precedence.
//
// One table of keys, [Keys], drives all of it: what a key is called in each place, its type, its default in each profile and the sentence
// that help says of it. Nothing here touches the process: arguments, environment and files are passed in.
//
//	settings, err := config.Load(args, os.Environ(), config.ReadFile)
//
// A variable that is set to nothing counts as not set. A value is looked at only where it takes effect: a bad one in the file does no
// harm while a flag overrides it.
package config

import (
	"errors"
	"flag"
	"log/slog"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// ErrUsage says that the command line makes no sense; the exit code for it is 64.
var ErrUsage = errors.New("see 'regent help config'")

// Error is a setting that cannot be used, and where it comes from; the exit code for it is 78. Where a value breaks a rule, it wraps a
// [regent.ConfigError]. Several are joined, one per line.
type Error struct {
	Origin string // as in [Settings.Origin]
	Err    error
}

func (e *Error) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Settings is a configuration that may be used: it is complete and breaks no rule. Printed as a whole, it shows no secret; Token and Store
// by themselves do (see [Redact]).
type Settings struct {
	Profile   string // cluster, lock or fleet
	File      string // the configuration file, if any
	Election  string
	Store     string // an address
	Node      string // the member's ID; empty for the library's default
	Listen    string // host:port
	Advertise string // host:port that others are told; Listen unless given
	Token     string // also where tokenFile gave it
	TokenFile string
	TLSCert   string
	TLSKey    string
	Insecure  bool
	Reaper    bool
	LogFormat string // text or json
	LogLevel  slog.Level
	Worker    bool
	DataDir   string // of what a worker must not forget
	ExecPolls bool
	Tasks     int // that a worker runs at once
	TaskBytes int // of results that a worker keeps
	TLSCA     string
	Regent    regent.Config

	Polls  []poll.Poll // of the file
	Duties []Duty      // likewise, in their order there

	Args     []string // what follows the flags
	Warnings []string // to be logged at start

	origins map[string]origin
	parts   []part
}

// origin is where the value of a key comes from.
type origin struct {
	text    string
	given   bool   // by a flag, a variable or the file
	follows string // the key that it was derived from
}

// Load reads a whole configuration: every key as a flag in args, the variables in environ, and the file that they name, if any. It returns
// [flag.ErrHelp] for -h and --help.
func Load(args, environ []string, readFile func(name string) ([]byte, error)) (*Settings, error) {
	set := flag.NewFlagSet("regent", flag.ContinueOnError)
	source := Flags(set)
	if err := Parse(set, args); err != nil {
		return nil, err
	}
	return source.Load(environ, readFile)
}

// Origin says where the value of a key comes from: "flag --listen", "variable REGENT_LISTEN", "file regent.yaml:12", "profile cluster",
// "follows heartbeatInterval", or "default".
func (s *Settings) Origin(key string) string { return s.origins[key].text }

// Given reports whether a flag, a variable or the file sets the key.
func (s *Settings) Given(key string) bool { return s.origins[key].given }
