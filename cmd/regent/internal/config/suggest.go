package config

import "github.com/regentd/regent/cmd/regent/internal/nearest"

// suggest returns a hint at the name that was probably meant, to be put after one that is not known. Prefix is what all names begin with.
func suggest(name, prefix string, known []string) string {
	if best := nearest.Name(name, known); best != "" {
		return ", did you mean " + prefix + best + "?"
	}
	return ""
}
