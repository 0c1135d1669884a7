package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prefix begins the variables of all keys.
const prefix = "REGENT_"

// aliases returns the variables of an older system that are understood as they are, by key.
func aliases() map[string]string {
	return map[string]string{
		"eligible":         "COORDINATOR_ELIGIBLE",
		"electionInterval": "COORDINATOR_ELECTION_INTERVAL",
		"takeoverDelay":    "COORDINATOR_TAKEOVER_DELAY",
	}
}

// variables returns what the environment sets, and warnings. A variable that is set to nothing counts as not set: that is how container
// tools pass one on that is not there.
func variables(environ []string) (all map[string]given, warnings []string) {
	env := map[string]string{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	all = map[string]given{}
	known := []string{"EPOCH", "TERM"} // which 'regent run' tells its child, besides the keys election and node
	for _, k := range Keys() {
		name, alias := k.Variable(), aliases()[k.Name]
		known = append(known, strings.TrimPrefix(name, prefix))
		value, other := env[name], env[alias]
		switch {
		case value == "" && other == "":
		case value == "":
			all[k.Name] = given{text: other, origin: "variable " + alias}
		default:
			all[k.Name] = given{text: value, origin: "variable " + name}
			if other != "" && !k.same(value, other) {
				warnings = append(warnings, fmt.Sprintf("variable %s=%s is ignored: %s=%s wins", alias, other, name, value))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !slices.Contains(known, rest) {
			warnings = append(warnings, fmt.Sprintf("variable %s is not known and ignored%s", name, suggest(rest, prefix, known)))
		}
	}
	return all, warnings
}

// same reports whether two texts mean the same value: 2000 and 2s do.
func (k Key) same(a, b string) bool {
	var x, y Settings
	if parse(k.field(&x), a) != "" || parse(k.field(&y), b) != "" {
		return a == b
	}
	return format(k.field(&x)) == format(k.field(&y))
}

// ForChildren returns an environment without the variables of Regent's that carry a secret: the token, and addresses with a
// password in them. No program that Regent starts needs them.
func ForChildren(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		names := strings.HasSuffix(rest, "_FILE") // it says where a secret is
		return ours && !names && (secretName(rest) || Redact(value) != value)
	})
}
