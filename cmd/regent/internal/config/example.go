package config

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const exampleIntro = `# The configuration of a Regent node. 'regent help config' describes every key.
# A line that begins with # shows a default. Check this file: regent config check --config FILE

profile: %s

`

const exampleSections = `# What the leader has workers check, each due time once:
#polls:
#  home:
#    kind: http
#    target: https://example.com/
#    interval: 10s
#    timeout: 5s

# Programs that run while this node leads:
#duties:
#  sync:
#    command: [rsync, -a, from/, to/]
#    restart: on-failure
`

// WriteExample writes a file with every key, its description and its default in a profile. All but the profile are
// comments.
func WriteExample(w io.Writer, profile string) error {
	if _, ok := defaults(profile); !ok {
		return fmt.Errorf("profile %q: must be %s: %w", profile, oneOf(Profiles()), ErrUsage)
	}

	var b strings.Builder
	fmt.Fprintf(&b, exampleIntro, profile)
	for _, k := range Keys() {
		if k.Name == "profile" || k.Name == "config" {
			continue
		}
		for _, line := range Wrap(k.Doc, 98) {
			b.WriteString("# " + line + "\n")
		}
		fmt.Fprintf(&b, "#%s: %s\n\n", k.Name, exampleValue(k, profile))
	}

	b.WriteString(exampleSections)
	_, err := io.WriteString(w, b.String())
	return err
}

// exampleValue returns the default of a key, as YAML.
func exampleValue(k Key, profile string) string {
	value := k.Default(profile)
	switch {
	case k.Type() == "labels":
		return "{}"
	case k.Type() == "durations":
		return "[" + strings.ReplaceAll(value, ",", ", ") + "]"
	case value == "":
		return `""`
	}

	return value
}

// Wrap splits a text into lines of at most width characters. A longer word has a line of its own.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}

	return append(lines, line)
}
