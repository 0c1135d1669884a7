package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// This file accepts the keys of systems that Regent replaces. docs/UPGRADE.md lists them.

// snakeCase returns the name of a key as other systems write it: election_interval for electionInterval.
func snakeCase(name string) string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if unicode.IsUpper(r) && small { // the first of several capitals begins a word
			b.WriteByte('_')
		}
		small = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}

	return b.String()
}

// camelCase returns the known key that a name in snake case stands for, or the name itself if there is none.
func camelCase(name string, known []string) string {
	i := slices.IndexFunc(known, func(k string) bool { return strings.Contains(name, "_") && snakeCase(k) == name })
	if i < 0 {
		return name
	}

	return known[i]
}

// renamed returns the warning about a key in snake case.
func renamed(name, camel, where string) string {
	return fmt.Sprintf("%s (%s) is accepted as %s: rename it", name, where, camel)
}

// ignoreCoordinator warns of the key that assigned the coordinator by hand, once.
func (c *contents) ignoreCoordinator(name, where string) {
	if c.coordinator {
		return
	}

	c.coordinator = true
	c.warnings = append(c.warnings,
		fmt.Sprintf("%s (%s) is deprecated and ignored: the election decides; remove it", name, where))
}

// renamePollKeys returns the definition of a poll with its keys in camel case, and warns of the others.
func (c *contents) renamePollKeys(name string, n *yaml.Node, at func(int) string) *yaml.Node {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		return n
	}

	copied := *n
	copied.Content = slices.Clone(n.Content)
	for i := 0; i+1 < len(copied.Content); i += 2 {
		key := *copied.Content[i]
		if camel := camelCase(key.Value, poll.Keys()); camel != key.Value {
			prefix := "polls." + name + "."
			c.warnings = append(c.warnings, renamed(prefix+key.Value, prefix+camel, at(key.Line)))
			key.Value = camel
			copied.Content[i] = &key
		}
	}

	return &copied
}
