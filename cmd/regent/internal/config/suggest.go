package config

import "github.com/regentd/regent/cmd/regent/internal/nearest"

// suggest returns the end of an error about an unknown name: the known name that was probably meant, after prefix, or
// nothing.
func suggest(name, prefix string, known []string) string {
	if best := nearest.Name(name, known); best != "" {
		return ", did you mean " + prefix + best + "?"
	}
	return ""
}
