package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// prefix is how the variables of all keys begin.
const prefix = "REGENT_"

// aliases returns the variables of an older system that are accepted too, by key.
func aliases() map[string]string {
	return map[string]string{
		"eligible":         "COORDINATOR_ELIGIBLE",
		"electionInterval": "COORDINATOR_ELECTION_INTERVAL",
		"takeoverDelay":    "COORDINATOR_TAKEOVER_DELAY",
	}
}

// variables returns the values that the environment sets, by key, and warnings. A variable that is empty counts as not
// set: container tools pass on an unset variable in that way.
func variables(environ []string) (all map[string]given, warnings []string) {
	env := map[string]string{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}

	all = map[string]given{}
	for _, k := range Keys() {
		name := k.Variable()
		alias := aliases()[k.Name]
		value := env[name]
		other := env[alias]
		switch {
		case value == "" && other == "":
		case value == "":
			all[k.Name] = given{text: other, origin: "variable " + alias}
		default:
			all[k.Name] = given{text: value, origin: "variable " + name}
			if other != "" && !k.same(value, other) {
				warnings = append(warnings,
					fmt.Sprintf("variable %s=%s is ignored: %s=%s wins", alias, other, name, value))
			}
		}
	}

	return all, warnings
}

// unknown returns the variables that have Regent's prefix and that Regent does not know. Those that are nearly one that
// it does know are mistyped: a node with REGENT_STROE would use another store than its peers, and lead beside them.
func unknown(environ []string) (mistyped []error, warnings []string) {
	settable := []string{"ADDR"} // of commands that ask a node
	for _, k := range Keys() {
		settable = append(settable, strings.TrimPrefix(k.Variable(), prefix))
	}
	known := append([]string{"EPOCH", "TERM", "RUN"}, settable...) // 'regent run' sets these for its program

	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || slices.Contains(known, rest) || ofService(rest, value) {
			continue
		}

		if meant := suggest(rest, prefix, settable); meant != "" {
			mistyped = append(mistyped, &Error{"variable " + name, errors.New("is not known" + meant)})
		} else {
			warnings = append(warnings, "variable "+name+" is not known and ignored")
		}
	}

	return mistyped, warnings
}

// serviceVariable matches the variables that Kubernetes sets in every pod for a Service whose name is regent, or begins
// with it: REGENT_SERVICE_HOST, REGENT_SERVICE_PORT_HTTP, REGENT_PORT_7468_TCP_ADDR.
var serviceVariable = regexp.MustCompile(`^(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|` +
	`PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)

// serviceValue matches their values: an address, a port, a protocol, or a URL of these.
var serviceValue = regexp.MustCompile(`^((tcp|udp|sctp)://\S+|tcp|udp|sctp|\d+|[\d.]+|[0-9a-f:]+:[0-9a-f:.]*|None)$`)

// ofService reports whether Kubernetes has set a variable.
func ofService(rest, value string) bool {
	switch {
	case !serviceVariable.MatchString(rest) || !serviceValue.MatchString(value):
		return false
	case rest == "PORT": // a person who means the port of the listener writes a number
		return strings.Contains(value, "://")
	}
	return true
}

// same reports whether two texts are the same value, as 2000 and 2s are.
func (k Key) same(a, b string) bool {
	var x, y Settings
	if parse(k.field(&x), a) != "" || parse(k.field(&y), b) != "" {
		return a == b
	}
	return format(k.field(&x)) == format(k.field(&y))
}

// ForChildren returns an environment without Regent's variables that carry a secret: the token, and addresses with a
// password. No program that Regent starts needs them.
func ForChildren(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		names := strings.HasSuffix(rest, "_FILE") // the path of a secret is none
		return ours && !names && (secretName(rest) || Redact(value) != value)
	})
}
