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

// contents is the configuration in a file.
type contents struct {
	values      map[string]given
	warnings    []string
	errs        []error
	polls       []poll.Poll
	duties      []Duty
	healthCheck *HealthCheck
	entries     []entry
	coordinator bool // cluster_coordinator was there
}

// readYAML reads the file called name. It returns an error if nothing of the file can be used. Values are kept as the
// text in the file: their keys give them a type, not YAML. So 'region: 010' and 'node: true' are texts.
func readYAML(name string, data []byte) (contents, error) {
	c := contents{values: map[string]given{}}
	at := func(line int) string {
		if line == 0 {
			return "file " + name
		}
		return "file " + name + ":" + strconv.Itoa(line)
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

	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		c.readKey(root.Content[i], root.Content[i+1], lines, at)
	}

	return c, nil
}

// readKey reads one key of the file. The map lines holds the line of each key that was read before.
func (c *contents) readKey(key, value *yaml.Node, lines map[string]int, at func(line int) string) {
	refuse := func(format string, args ...any) {
		c.errs = append(c.errs, &Error{at(key.Line), fmt.Errorf(format, args...)})
	}

	known := slices.Clone(sections)
	for _, k := range Keys() {
		known = append(known, k.Name)
	}

	name := key.Value
	if camel := camelCase(name, known); camel != name {
		c.warnings = append(c.warnings, renamed(name, camel, at(key.Line)))
		name = camel
	}

	first, seen := lines[name]
	switch {
	case key.Kind != yaml.ScalarNode:
		refuse("a key must be a word")
	case name == "cluster_coordinator" || name == "clusterCoordinator":
		c.ignoreCoordinator(name, at(key.Line))
	case seen:
		refuse("key %s is already set in line %d", name, first)
	case name == "config":
		refuse("key config cannot be in the file: use --config or REGENT_CONFIG")
	case !slices.Contains(known, name):
		refuse("unknown key %.80q%s", name, suggest(name, "", known))
	case name == healthCheckKey:
		lines[name] = key.Line
		c.readHealthCheck(value, at(key.Line))
	case slices.Contains(sections, name):
		lines[name] = key.Line
		c.readSection(name, value, at)
	default:
		lines[name] = key.Line
		g := fromNode(name, value)
		g.origin = at(key.Line)
		c.values[name] = g
	}
}

var (
	errMapping   = errors.New("must be a mapping: a key, a colon, a space and a value in each line")
	errDocuments = errors.New("must be one YAML document, and there are more")
)

// parseYAML returns the root of the only document, or nil if the file is empty.
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

// plainly returns the error of the parser without its line, which is often wrong, and without the text of the file,
// which may be a secret.
func plainly(err error) error {
	text := yamlNoise.ReplaceAllString(err.Error(), "")
	if strings.HasPrefix(text, "unknown anchor") {
		text = "a value that begins with * must be quoted"
	}
	return errors.New("not YAML: " + text)
}

// badLine returns the line of a syntax error: the one after the longest valid beginning of the file. It returns 0 for a
// file of more than some hundred lines, where trying them all would take too long.
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

// fromNode returns the value as the text that a flag would take. If its form breaks a rule, it returns the rule, and
// the form as text.
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
		name := target(n.Content[i])
		value := target(n.Content[i+1])
		scalars := name.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && !null(value)
		if !scalars || strings.ContainsAny(name.Value, ",=") || strings.Contains(value.Value, ",") {
			return given{text: "{…}", rule: "must map names to values, without commas in them"}
		}

		items = append(items, name.Value+"="+value.Value)
	}

	return given{text: strings.Join(items, ",")}
}

// target returns the node that an alias stands for, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// tagged reports whether the value has a tag, whose meaning is unknown: '!secret name' is hardly the secret.
func tagged(n *yaml.Node) bool {
	return n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!")
}
