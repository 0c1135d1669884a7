package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// contents is what a file says.
type contents struct {
	values   map[string]given
	warnings []string
	errs     []error
	polls    []poll.Poll
	duties   []Duty
	parts    []part
}

// readYAML reads the file called name; it returns an error if nothing of it can be used. Values are kept as the text that is written
// there: their keys give them a type, not YAML, so 'region: 010' and 'node: true' are what they look like.
func readYAML(name string, data []byte) (contents, error) {
	c := contents{values: map[string]given{}}
	at := func(line int) string {
		if line == 0 {
			return "file " + name
		}
		return "file " + name + ":" + strconv.Itoa(line)
	}
	refuse := func(line int, format string, args ...any) {
		c.errs = append(c.errs, &Error{at(line), fmt.Errorf(format, args...)})
	}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		return c, &Error{at(badLine(data)), err}
	case root == nil || null(root):
		return c, nil
	case root.Kind != yaml.MappingNode:
		return c, &Error{at(root.Line), errMapping}
	}
	known := slices.Clone(parts)
	for _, k := range Keys() {
		known = append(known, k.Name)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		first, seen := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			refuse(key.Line, "a key must be a word")
		case key.Value == "cluster_coordinator" || key.Value == "clusterCoordinator":
			c.warnings = append(c.warnings, fmt.Sprintf("%s (%s) is deprecated and ignored: the election decides; remove it", key.Value, at(key.Line)))
		case seen:
			refuse(key.Line, "key %s is already set in line %d", key.Value, first)
		case key.Value == "config":
			refuse(key.Line, "key config cannot be in the file: use --config or REGENT_CONFIG")
		case slices.Contains(parts, key.Value):
			lines[key.Value] = key.Line
			c.readPart(key.Value, value, at)
		case !slices.Contains(known, key.Value):
			refuse(key.Line, "unknown key %.80q%s", key.Value, suggest(key.Value, "", known))
		default:
			lines[key.Value] = key.Line
			g := fromNode(key.Value, value)
			g.origin = at(key.Line)
			c.values[key.Value] = g
		}
	}
	c.warnings = c.warnings[:min(1, len(c.warnings))] // one is enough, however it is spelled
	return c, nil
}

var (
	errMapping   = errors.New("must be a mapping: a key, a colon, a space and a value in each line")
	errDocuments = errors.New("must be one YAML document, and there are more")
)

// parseYAML returns the root of the only document, or nil if there is nothing.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, plainly(err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, errDocuments
	} else if err != io.EOF {
		return nil, plainly(err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

var yamlNoise = regexp.MustCompile(`^yaml: (line \d+: )?`)

// plainly returns the parser's error without its line, which is often wrong, and without what was written there, which may be a secret.
func plainly(err error) error {
	text := yamlNoise.ReplaceAllString(err.Error(), "")
	if strings.HasPrefix(text, "unknown anchor") {
		text = "a value that begins with * must be quoted"
	}
	return errors.New("not YAML: " + text)
}

// badLine returns the line that a syntax error is in: the one after the longest beginning of the file that is valid. It returns 0 for a
// file too long to try them all: some hundred lines are not.
func badLine(data []byte) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines)*len(data) > 4<<20 {
		return 0
	}
	for n := len(lines) - 1; n > 0; n-- {
		data = data[:len(data)-len(lines[n])]
		if _, err := parseYAML(data); err == nil {
			return n + 1
		}
	}
	return 1
}

// fromNode returns the value as the text that a flag would take; or, with the rule that its form breaks, a picture of the form.
func fromNode(key string, n *yaml.Node) given {
	n = target(n)
	switch {
	case null(n):
		return given{text: "null", rule: "must have a value; leave the key out for the default"}
	case tagged(n):
		return given{text: "with a tag", rule: "must be written without one"}
	case n.Kind == yaml.ScalarNode:
		return given{text: n.Value}
	case n.Kind == yaml.SequenceNode && key == "renewBackoff":
		return joinList(n)
	case n.Kind == yaml.MappingNode && key == "labels":
		return joinLabels(n)
	case n.Kind == yaml.SequenceNode:
		return given{text: "[…]", rule: "cannot be a list"}
	}
	return given{text: "{…}", rule: "cannot be a mapping"}
}

func joinList(n *yaml.Node) given {
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		if item = target(item); item.Kind != yaml.ScalarNode {
			return given{text: "[…]", rule: "must be a list of durations"}
		}
		items[i] = item.Value
	}
	return given{text: strings.Join(items, ",")}
}

func joinLabels(n *yaml.Node) given {
	var items []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := target(n.Content[i]), target(n.Content[i+1])
		if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || null(value) || strings.ContainsAny(name.Value, ",=") || strings.Contains(value.Value, ",") {
			return given{text: "{…}", rule: "must map names to values, without commas in them"}
		}
		items = append(items, name.Value+"="+value.Value)
	}
	return given{text: strings.Join(items, ",")}
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// tagged reports whether a tag was written before the value. What it means is unknown: '!secret name' is hardly the secret.
func tagged(n *yaml.Node) bool {
	return n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!")
}
