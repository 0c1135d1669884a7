package doctor

import (
	"slices"
	"strings"
)

// topic is something that a driver checks by itself when it opens a store.
type topic struct {
	name  string
	words []string          // of its warnings
	wrong []string          // of those that must be heeded: without it the store may forget registers
	fine  map[string]string // what no warning means, by the scheme of the store; a driver without it does not check
}

// topics returns what drivers check.
func topics() []topic {
	return []topic{
		{"eviction", []string{"maxmemory-policy", "evicts keys"}, []string{"maxmemory-policy is allkeys"},
			map[string]string{"redis": "the server deletes no registers when it is full"}},
		{"persistence", []string{"appendonly", "on disk", "fsync", "synchronous_commit"},
			[]string{"keeps nothing on disk"},
			map[string]string{"redis": "the server keeps what it was sent",
				"postgres": "a commit is answered when the server has it on its disk"}},
		{"replication", []string{"min-replicas", "synchronous_standby_names", "has replicas"}, nil,
			map[string]string{"redis": "the server has no replicas, or accepts no writes without them",
				"postgres": "no replica that is behind could take over and lose commits"}},
		{"permissions", []string{"permission", "may not", "+info", "mode "}, nil,
			map[string]string{"redis": "this user may do all that Regent needs"}},
	}
}

// AddWarnings adds what the driver has warned of, sorted by what it is about.
func (r *Report) AddWarnings(warnings []string, scheme string) {
	left := slices.Clone(warnings)
	for _, topic := range topics() {
		about := func(w string) bool { return mentions(w, topic.words) }
		for _, w := range left {
			switch {
			case mentions(w, topic.wrong):
				r.Add(topic.name, Wrong, "", "%s", w)
			case about(w):
				r.Add(topic.name, Warning, "", "%s", w)
			}
		}

		left = slices.DeleteFunc(left, about)
		found := slices.ContainsFunc(warnings, about) // one may be about several topics
		if fine := topic.fine[scheme]; !found && fine != "" {
			r.Add(topic.name, OK, "", "%s", fine)
		}
	}

	for _, w := range left {
		r.Add("store", Warning, "", "%s", w)
	}
}

// mentions reports whether a warning has one of the words.
func mentions(warning string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(warning, word) })
}
