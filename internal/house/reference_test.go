package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// apiDir has the node's routes and its metrics.
const apiDir = "cmd/regent/internal/api/"

// TestEventsAreDocumented compares the Event constants of the code with the tables of docs/EVENTS.md.
func TestEventsAreDocumented(t *testing.T) {
	kind := regexp.MustCompile(`^[a-z]+:[a-z_]+$`)
	kinds := map[string]bool{}
	for _, path := range sources(t, "") {
		for name, value := range constants(t, path) {
			if strings.HasPrefix(name, "Event") && kind.MatchString(value) {
				kinds[value] = true
			}
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("the code has %d kinds of event", len(kinds))
	}

	compare(t, "docs/EVENTS.md", kinds, firstCells(t, "docs/EVENTS.md", kind))
}

// TestMetricsAreDocumented compares the metrics of a node with the tables of docs/EVENTS.md.
func TestMetricsAreDocumented(t *testing.T) {
	metrics := map[string]bool{}
	descriptors := 0
	for _, path := range sources(t, apiDir) {
		calls(t, path, func(name string, args []ast.Expr) {
			switch name {
			case "desc", "send":
				if text, ok := value(args[0], nil); ok {
					metrics["regent_"+text] = true
				}
			case "NewDesc":
				descriptors++
			}
		})
	}
	if descriptors != 2 {
		t.Errorf("%s makes metrics in %d places: desc and send are known here, teach this test the others", apiDir,
			descriptors)
	}

	compare(t, "docs/EVENTS.md", metrics, firstCells(t, "docs/EVENTS.md", regexp.MustCompile(`^regent_[a-z_]+$`)))
}

// TestRoutesAreDocumented compares the routes of a node with the table of docs/HTTP.md.
func TestRoutesAreDocumented(t *testing.T) {
	known := map[string]string{}
	for _, path := range sources(t, apiDir) {
		for name, text := range constants(t, path) {
			known[name] = text
		}
	}

	route := regexp.MustCompile(`^[A-Z]+ /`)
	routes := map[string]bool{}
	for _, path := range sources(t, apiDir) {
		calls(t, path, func(name string, args []ast.Expr) {
			if name != "Handle" && name != "HandleFunc" || len(args) != 2 {
				return
			}
			text, ok := value(args[0], known)
			if !ok || !route.MatchString(text) {
				t.Errorf("%s has a route that is no constant method and path: %s", path, text)
				return
			}
			routes[text] = true
		})
	}

	compare(t, "docs/HTTP.md", routes, firstCells(t, "docs/HTTP.md", route))
}

// compare reports what is in the code alone, and what is in the document alone.
func compare(t *testing.T, document string, code map[string]bool, rows []string) {
	t.Helper()

	for name := range code {
		if !slices.Contains(rows, name) {
			t.Errorf("%s has no row for %s", document, name)
		}
	}
	for _, row := range rows {
		if !code[row] {
			t.Errorf("%s has a row for %s, which is not in the code", document, row)
		}
	}
}

// firstCells returns the texts in backquotes that begin a row of a table and match.
func firstCells(t *testing.T, document string, match *regexp.Regexp) []string {
	t.Helper()

	var found []string
	for line := range strings.Lines(read(t, document)) {
		rest, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		if text, _, ok := strings.Cut(rest, "` |"); ok && match.MatchString(text) {
			found = append(found, text)
		}
	}

	return found
}

// sources returns the Go files below a directory that are no tests.
func sources(t *testing.T, dir string) []string {
	t.Helper()

	return slices.DeleteFunc(files(t, ".go"), func(path string) bool {
		return !strings.HasPrefix(path, dir) || strings.HasSuffix(path, "_test.go")
	})
}

// constants returns the string constants that a file declares at its top level.
func constants(t *testing.T, path string) map[string]string {
	t.Helper()

	found := map[string]string{}
	for _, d := range parse(t, path, parser.SkipObjectResolution).Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			s := spec.(*ast.ValueSpec)
			for i, name := range s.Names {
				if i >= len(s.Values) {
					break
				}
				if text, ok := value(s.Values[i], nil); ok {
					found[name.Name] = text
				}
			}
		}
	}

	return found
}

// calls calls f for each call in a file, with the name of what is called.
func calls(t *testing.T, path string, f func(name string, args []ast.Expr)) {
	t.Helper()

	ast.Inspect(parse(t, path, parser.SkipObjectResolution), func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			f(fun.Name, call.Args)
		case *ast.SelectorExpr:
			f(fun.Sel.Name, call.Args)
		}
		return true
	})
}

// value returns the text of a string constant: a literal, a known name, or a sum of these.
func value(e ast.Expr, known map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := known[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, ok := value(e.X, known)
		right, also := value(e.Y, known)
		return left + right, ok && also && e.Op == token.ADD
	}

	return "", false
}
