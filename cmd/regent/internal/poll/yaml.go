package poll

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// FromYAML reads one entry of the mapping polls in a configuration file, fills in the defaults, and validates it, like
// [Decode].
func FromYAML(name string, node *yaml.Node) (Poll, error) {
	v := newViolations(name)
	s := readNode(node, 0)
	if s.mapping == nil || s.rule != "" {
		v.refuse("", someValue, "must be a mapping of keys such as kind, target and interval")
		return Poll{}, v.first()
	}

	for _, s := range s.mapping {
		if s.key == "since" {
			v.refuse(s.key, someValue, "is set by the leader, and cannot be in a file")
			return Poll{}, v.err()
		}
	}

	return build(name, s.mapping)
}

// maxDepth is how deep mappings are nested: the poll, and its options. Aliases can make a cycle.
const maxDepth = 2

// readNode returns values as the text in the file, so that 'target: 010' and 'expect: yes' keep their spelling.
func readNode(n *yaml.Node, depth int) setting {
	n = resolve(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return setting{text: "null", rule: nullRule}
	case n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!"):
		return setting{text: "with a tag", rule: "must be written without a tag"}
	case n.Kind == yaml.SequenceNode:
		return readSequence(n)
	case n.Kind == yaml.MappingNode && depth < maxDepth:
		return readMapping(n, depth)
	case n.Kind == yaml.MappingNode:
		return setting{text: string(someMapping), rule: mappingRule}
	}

	return setting{text: n.Value}
}

func readMapping(n *yaml.Node, depth int) setting {
	s := setting{mapping: []setting{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := readNode(n.Content[i+1], depth+1)
		value.key = n.Content[i].Value
		s.mapping = append(s.mapping, value)
	}

	return s
}

func readSequence(n *yaml.Node) setting {
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode {
			return setting{text: string(someList), rule: listRule}
		}
		items[i] = item.Value
	}

	return list(items)
}

// resolve returns the node that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}

	return n
}
