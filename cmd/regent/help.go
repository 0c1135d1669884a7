package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

const usage = `regent elects at most one leader among processes that share a store.

Usage:
  regent serve [flags]                     run a node, with an HTTP API for health, role, metrics and events
  regent serve --check-config [flags]      check the configuration and the store, print where each value comes from
  regent run ELECTION [flags] -- CMD ...   run a program while this process leads; --timeout bounds the wait
  regent slots [flags] JOURNAL ...         check the journals of all workers: each slot of each poll once, none left out
  regent demo                              three processes on one embedded store: kill the leader, see who takes over
  regent help serve                        the flags of serve alone, and its exit codes
  regent help run                          the flags of run alone, and its exit codes
  regent help config                       every key: its flag, its variable, its default in each profile
  regent version                           the version of this binary
`

const serveHelp = `regent serve [flags]

Runs a node until it gets TERM or INT. The node campaigns, runs duties and polls while it leads, and serves HTTP.

  --check-config   print the configuration and where each value comes from, check the store, and exit
  -o FORMAT        with --check-config: text or json
  -h, --help       this text, and every key of the configuration

Exit codes: 0 stopped by a signal; 1 it failed, and may work when it is started again; 64 the command line makes no
sense; 78 the configuration, the store or a file of dataDir must be changed first.
`

const runHelp = `regent run ELECTION [flags] -- CMD ...

Runs CMD while this process leads ELECTION, and stops it when leadership is lost.

  --timeout DURATION   how long to wait for leadership, such as 30s; 0, the default, waits for ever
  --once               run CMD at most once; this is the default
  --restart            run CMD again when it fails, and when this process leads again
  -h, --help           this text, and every key of the configuration

Exit codes: that of CMD, or 128 and the signal that it died of; 64 the command line makes no sense; 69 the store was
never reached within --timeout; 75 leadership was not won within --timeout; 78 the configuration or the store must be
changed first; 90 leadership was lost, and CMD was stopped; 126 CMD cannot be run; 127 there is no program CMD.
`

const otherKeys = "\nEvery key of the configuration is a flag too: see 'regent help config'.\n"

// topics returns the topics of 'regent help'.
func topics() []string { return []string{"config", "run", "serve"} }

// help writes the text of 'regent help', or of one topic.
func help(out io.Writer, args []string) error {
	topic := ""
	if len(args) > 0 {
		topic = args[0]
	}

	text := ""
	switch topic {
	case "":
		text = usage
	case "config":
		return config.WriteHelp(out, "text")
	case "run":
		text = runHelp + otherKeys
	case "serve":
		text = serveHelp + otherKeys
	default:
		return fmt.Errorf("help %q: no such topic; there are %s: %w", topic, strings.Join(topics(), ", "), errUsage)
	}

	_, err := io.WriteString(out, text)
	return err
}

// helpWithKeys writes the text of --help of a command: its own flags, and every key.
func helpWithKeys(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text+"\n"); err != nil {
		return err
	}
	return config.WriteHelp(out, "text")
}

// asksForHelp reports whether -h or --help is among the arguments before a program.
func asksForHelp(args []string) bool {
	if split := slices.Index(args, "--"); split >= 0 {
		args = args[:split]
	}
	return slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "-help" || a == "--help" })
}
