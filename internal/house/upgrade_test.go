package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUpgradeNamesExist checks docs/UPGRADE.md: the events, routes, metrics and keys in the right column exist, and
// every row has both sides.
func TestUpgradeNamesExist(t *testing.T) {
	events := read(t, "docs/EVENTS.md")
	routes := read(t, "docs/HTTP.md")
	keys := read(t, "cmd/regent/internal/config/keys.go") + strings.Join(sections(t), " ")
	word := regexp.MustCompile("`([^`]+)`")
	event := regexp.MustCompile(`^[a-z]+:[a-z_]+$`)
	route := regexp.MustCompile(`^(GET |POST )?/[a-z0-9/{}-]+$`)
	key := regexp.MustCompile(`^([a-z]+[A-Z][A-Za-z]*):?( .*)?$`)

	rows := 0
	for line := range strings.Lines(read(t, "docs/UPGRADE.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "---") {
			continue
		}

		rows++
		if strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("a side is empty: %s", line)
		}

		for _, m := range word.FindAllStringSubmatch(cells[2], -1) {
			name := m[1]
			ours := key.FindStringSubmatch(name)
			switch {
			case event.MatchString(name) && name != "stargate:leader":
				if !strings.Contains(events, "`"+name+"`") {
					t.Errorf("docs/EVENTS.md has no event %s", name)
				}
			case route.MatchString(name):
				if path := name[strings.Index(name, "/"):]; !strings.Contains(routes, path+"`") {
					t.Errorf("docs/HTTP.md has no route %s", name)
				}
			case strings.HasPrefix(name, "regent_"):
				if !strings.Contains(events, "`"+name+"`") {
					t.Errorf("docs/EVENTS.md has no metric %s", name)
				}
			case ours != nil && !strings.Contains(keys, ours[1]) && !strings.Contains(events+routes, "`"+ours[1]+"`"):
				t.Errorf("%s is no key, and no field of docs/EVENTS.md or docs/HTTP.md", ours[1])
			}
		}
	}
	if rows < 80 {
		t.Errorf("docs/UPGRADE.md has %d rows", rows)
	}
}

// sections returns the keys that only a file can hold.
func sections(t *testing.T) []string {
	t.Helper()

	found := []string{"polls", "duties", "healthCheck"}
	text := read(t, "cmd/regent/internal/config/sections.go") + read(t, "cmd/regent/internal/config/healthcheck.go")
	if missing := slices.DeleteFunc(slices.Clone(found), func(name string) bool {
		return strings.Contains(text, `"`+name+`"`)
	}); len(missing) > 0 {
		t.Errorf("the configuration has no %v", missing)
	}

	return found
}
