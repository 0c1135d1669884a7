package poll

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FromYAML reads one entry of the mapping polls in a configuration file, fills in the defaults, and validates it, as Decode does.
func FromYAML(name string, node *yaml.Node) (Poll, error) {
	f := &faults{key: keyOf(name)}
	e := readNode(node, 0)
	if e.mapping == nil || e.rule != "" {
		f.refuse("", "(set)", "must be a mapping of keys such as kind, target and interval")
		return Poll{}, f.errs[0]
	}
	for _, e := range e.mapping {
		if e.key == "since" {
			f.refuse(e.key, "(set)", "is set by the leader, and cannot be in a file")
			return Poll{}, errors.Join(f.errs...)
		}
	}
	return build(name, e.mapping)
}

// deepest is how far mappings go: the poll, and its options. An alias can make a circle.
const deepest = 2

// readNode keeps values as the text that is written there, so 'target: 010' and 'expect: yes' are what they look like.
func readNode(n *yaml.Node, depth int) setting {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return setting{text: "null", rule: nullRule}
	case n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!"):
		return setting{text: "with a tag", rule: "must be written without one"}
	case n.Kind == yaml.SequenceNode:
		return readSequence(n)
	case n.Kind == yaml.MappingNode && depth < deepest:
		e := setting{mapping: []setting{}}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value := readNode(n.Content[i+1], depth+1)
			value.key = n.Content[i].Value
			e.mapping = append(e.mapping, value)
		}
		return e
	case n.Kind == yaml.MappingNode:
		return setting{text: "{…}", rule: mappingRule}
	}
	return setting{text: n.Value}
}

func readSequence(n *yaml.Node) setting {
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		if item.Kind == yaml.AliasNode && item.Alias != nil {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode {
			return setting{text: "[…]", rule: listRule}
		}
		items[i] = item.Value
	}
	return list(items)
}
