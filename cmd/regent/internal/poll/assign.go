package poll

import "strings"

const assignRule = "must be any, node:NAME, or label: followed by name=value with commas between"

// Matches reports whether a node with these labels may run the poll.
func (p Poll) Matches(node string, labels map[string]string) bool {
	switch form, value, _ := strings.Cut(p.Assign, ":"); form {
	case "", "any":
		return true
	case "node":
		return value == node
	case "label":
		wanted, ok := parseLabels(value)
		for name, value := range wanted {
			if got, has := labels[name]; !has || got != value {
				return false
			}
		}
		return ok
	}

	return false
}

// validAssign reports whether Assign has one of its forms.
func (p Poll) validAssign() bool {
	switch form, value, _ := strings.Cut(p.Assign, ":"); form {
	case "any":
		return p.Assign == "any"
	case "node":
		return value != ""
	case "label":
		_, ok := parseLabels(value)
		return ok
	}

	return false
}

func parseLabels(s string) (map[string]string, bool) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if _, twice := labels[name]; !ok || name == "" || twice {
			return nil, false
		}

		labels[name] = strings.TrimSpace(value)
	}

	return labels, true
}
