package poll

import "strings"

const assignRule = "must be any, node:NAME, or label: followed by name=value with commas between"

// Matches reports whether a node with these labels may run the poll.
func (p Poll) Matches(node string, labels map[string]string) bool {
	switch how, what, _ := strings.Cut(p.Assign, ":"); how {
	case "", "any":
		return true
	case "node":
		return what == node
	case "label":
		wanted, ok := parseLabels(what)
		for name, value := range wanted {
			if got, has := labels[name]; !has || got != value {
				return false
			}
		}
		return ok
	}
	return false
}

// assignable reports whether Assign has one of its forms.
func (p Poll) assignable() bool {
	switch how, what, _ := strings.Cut(p.Assign, ":"); how {
	case "any":
		return p.Assign == "any"
	case "node":
		return what != ""
	case "label":
		_, ok := parseLabels(what)
		return ok
	}
	return false
}

func parseLabels(s string) (map[string]string, bool) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, twice := labels[name]; !ok || name == "" || twice {
			return nil, false
		}
		labels[name] = value
	}
	return labels, true
}
