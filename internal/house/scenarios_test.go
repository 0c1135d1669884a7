package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// openAtMost is how many scenarios still have no test. It only ever gets smaller.
const openAtMost = 0

// scenarios are all behaviours that were asked for.
func scenarios() []string {
	var ids []string
	for _, group := range []struct {
		letter string
		count  int
	}{{"C", 22}, {"E", 13}, {"J", 15}, {"L", 13}, {"N", 6}, {"P", 4}} {
		for i := range group.count {
			ids = append(ids, fmt.Sprintf("%s%02d", group.letter, i+1))
		}
	}
	return ids
}

// proofs returns, for each scenario, the files with a test whose name, or whose subtest's name, begins with its ID or
// lists it there.
func proofs(t *testing.T) map[string][]string {
	id := regexp.MustCompile(`(?:^|_|^Test)([CEJLNP]\d\d)(?:_|$)`)
	found := map[string][]string{}
	note := func(name, path string) {
		for range 8 { // IDs that follow each other share their underscores
			m := id.FindStringSubmatchIndex(name)
			if m == nil {
				return
			}
			if k := name[m[2]:m[3]]; !slices.Contains(found[k], path) {
				found[k] = append(found[k], path)
			}
			name = name[m[3]:]
		}
	}
	for _, path := range files(t, "_test.go") {
		if strings.HasPrefix(path, "internal/house/") { // it names scenarios, and proves none
			continue
		}
		ast.Inspect(parse(t, path, parser.SkipObjectResolution), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				note(strings.TrimPrefix(n.Name.Name, "Test"), path)
			case *ast.BasicLit:
				if n.Kind == token.STRING && !strings.Contains(n.Value, " ") {
					note(strings.Trim(n.Value, "\"`"), path)
				}
			}
			return true
		})
	}
	return found
}

// The ways in which a test can prove a behaviour, the strongest first.
var ways = []string{"real processes", "real server", "virtual time", "unit"}

// way returns how the tests of a file prove what they prove, as far as its package and its text tell.
func way(t *testing.T, path string) string {
	dir := filepath.ToSlash(filepath.Dir(path))
	source := read(t, path)
	switch {
	case dir == "cmd/regent", dir == "reaper", strings.Contains(filepath.Base(path), "process"):
		return "real processes"
	case strings.HasPrefix(dir, "store/"):
		return "real server"
	case strings.Contains(source, "bubble("), strings.Contains(source, "synctest."), strings.Contains(source,
		"virtual.Test("):
		return "virtual time"
	}
	return "unit"
}

// waysOf returns the ways of several files, as docs/SCENARIOS.md has them.
func waysOf(t *testing.T, paths []string) string {
	var used []string
	for _, path := range paths {
		used = append(used, way(t, path))
	}
	all := slices.DeleteFunc(slices.Clone(ways), func(w string) bool { return !slices.Contains(used, w) })
	return strings.Join(all, ", ")
}

// TestScenarios checks docs/SCENARIOS.md: every scenario has a row, and each row names the files that prove it, and
// how, or says that it is open.
func TestScenarios(t *testing.T) {
	rows, hows := map[string]string{}, map[string]string{}
	for line := range strings.Lines(read(t, "docs/SCENARIOS.md")) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			id := strings.TrimSpace(cells[1])
			hows[id] = strings.TrimSpace(cells[3])
			rows[id] = strings.TrimSpace(cells[4])
		}
	}
	found := proofs(t)
	open := 0
	for _, id := range scenarios() {
		where, ok := rows[id]
		switch {
		case !ok:
			t.Errorf("docs/SCENARIOS.md has no row for %s", id)
		case where == "open":
			open++
			if len(found[id]) > 0 {
				t.Errorf("%s is open in docs/SCENARIOS.md, and proved in %v", id, found[id])
			}
		default:
			for _, path := range found[id] {
				if !strings.Contains(where, "`"+path+"`") {
					t.Errorf("%s is proved in %s, which its row does not name", id, path)
				}
			}
			for path := range strings.FieldsSeq(strings.ReplaceAll(where, ",", " ")) {
				if p := strings.Trim(path, "`"); p != path && !slices.Contains(found[id], p) {
					t.Errorf("%s is not proved in %s", id, p)
				}
			}
			if len(found[id]) == 0 {
				t.Errorf("%s has no test", id)
			}
			if how := waysOf(t, found[id]); hows[id] != how {
				t.Errorf("%s says that it is proved by %q, and its tests are %q", id, hows[id], how)
			}
		}
	}
	if open != openAtMost {
		t.Errorf("%d scenarios are open, openAtMost says %d: the list only shrinks", open, openAtMost)
	}
}
