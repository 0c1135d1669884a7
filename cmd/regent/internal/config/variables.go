package config

import (
	"fmt"
	"maps"
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
	known := []string{"EPOCH", "TERM"} // 'regent run' sets them, besides those of the keys election and node
	for _, k := range Keys() {
		name := k.Variable()
		alias := aliases()[k.Name]
		known = append(known, strings.TrimPrefix(name, prefix))

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

	for _, name := range slices.Sorted(maps.Keys(env)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !slices.Contains(known, rest) {
			warnings = append(warnings,
				fmt.Sprintf("variable %s is not known and ignored%s", name, suggest(rest, prefix, known)))
		}
	}

	return all, warnings
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
