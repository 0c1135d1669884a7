package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/regentd/regent"
)

// files returns the files of the repository whose names end so, by their path from its root.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "node_modules" ||
			d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no file %s: %v", suffix, err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse(t *testing.T, path string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFileNames forbids names that a module, or a checkout on some system, cannot have, and what a test or a build
// has left.
func TestFileNames(t *testing.T) {
	for _, path := range files(t, "") {
		name := filepath.Base(path)
		if strings.ContainsAny(name, `"'*<>?\|:`+"`") {
			t.Errorf("%s: a module cannot hold a file of that name", path)
		}
		for _, left := range []string{".db", ".db-wal", ".db-shm", ".test", ".prof"} {
			if strings.HasSuffix(name, left) {
				t.Errorf("%s was left by a test or a build", path)
			}
		}
	}
}

func TestRootRequiresNothing(t *testing.T) {
	for line := range strings.Lines(read(t, "go.mod")) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); slices.Contains([]string{"require", "replace",
			"tool"}, word) {
			t.Errorf("go.mod: %s", line)
		}
	}
}

func TestImports(t *testing.T) {
	for _, path := range files(t, ".go") {
		for _, spec := range parse(t, path, parser.ImportsOnly).Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			ours := imported == module || strings.HasPrefix(imported, module+"/")
			test := strings.HasSuffix(path, "_test.go")
			driver := strings.HasPrefix(path, "store/")
			switch {
			case driver && ours && imported != module && imported != module+"/driver" &&
				(!test || imported != module+"/storetest" && imported != module+"/internal/pgtest" &&
					imported != module+"/internal/etcdtest" && imported != module+"/internal/natstest" &&
					imported != module+"/internal/drivertest" && imported != module+"/internal/kubetest" &&
					imported != module+"/"+filepath.ToSlash(filepath.Dir(path))):
				t.Errorf("%s imports %s: a driver imports package driver and the root, "+
					"and in tests storetest, drivertest, pgtest, etcdtest, natstest and kubetest", path,
					imported)
			case !driver && !strings.HasPrefix(path, "cmd/") && !strings.HasPrefix(path, "bench/") &&
				!strings.HasPrefix(path, "reaper/") && !ours &&
				strings.Contains(strings.Split(imported, "/")[0], "."):
				t.Errorf("%s imports %s: the root module requires nothing", path, imported)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		dir := filepath.Dir(path)
		f := parse(t, path, parser.PackageClauseOnly|parser.ParseComments)
		documented[dir] = documented[dir] || f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != ""
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

// TestModulesAreOneWorkspace looks for each module in go.work and in the Makefile. The modules of the peers
// and of the API server are in neither: they would decide on the versions of what others require, and take minutes to
// build.
func TestModulesAreOneWorkspace(t *testing.T) {
	work, makefile := read(t, "go.work"), read(t, "Makefile")
	for _, path := range files(t, "go.mod") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "bench/peers" || dir == "store/kube/testserver" {
			continue
		}
		use := "./" + dir
		if dir == "." {
			use = "."
		}
		if !strings.Contains(work, "\t"+use+"\n") {
			t.Errorf("go.work does not use %s", use)
		}
		if line, _, _ := strings.Cut(makefile[strings.Index(makefile, "MODULES"):],
			"\n"); !slices.Contains(strings.Fields(line), dir) {
			t.Errorf("the Makefile's MODULES lacks %s", dir)
		}
	}
}

// TestDependenciesAreDecisions looks for each direct requirement in docs/DECISIONS.md.
func TestDependenciesAreDecisions(t *testing.T) {
	decisions := read(t, "docs/DECISIONS.md")
	for _, path := range files(t, "go.mod") {
		for line := range strings.Lines(read(t, path)) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") || strings.HasPrefix(fields[0], module) {
				continue // a direct requirement is a path and a version, with no comment
			}
			if !strings.Contains(decisions, fields[0]) {
				t.Errorf("%s requires %s, which docs/DECISIONS.md does not name", path, fields[0])
			}
		}
	}
}

// TestAlertsNameMetrics checks that every metric in the alert rules is one that a node has.
func TestAlertsNameMetrics(t *testing.T) {
	source := read(t, "cmd/regent/internal/api/metrics.go")
	named := regexp.MustCompile(`regent_([a-z_]+)`).FindAllStringSubmatch(read(t, "deploy/alerts.yml"), -1)
	if len(named) < 5 {
		t.Fatalf("the alerts name %d metrics", len(named))
	}
	for _, m := range named {
		if !strings.Contains(source, `desc("`+m[1]+`"`) {
			t.Errorf("the alerts name %s, which no node has", m[0])
		}
	}
}

// TestVirtualTimeSurvivesTheRaceDetector forbids synctest.Test outside of internal/virtual, which says why.
func TestVirtualTimeSurvivesTheRaceDetector(t *testing.T) {
	for _, path := range files(t, ".go") {
		if path == "internal/virtual/virtual.go" {
			continue
		}
		ast.Inspect(parse(t, path, 0), func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Test" && call.Sel.Name != "Run" {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "synctest" {
				t.Errorf("%s uses synctest.%s: use internal/virtual, or the race detector may crash", path,
					call.Sel.Name)
			}
			return true
		})
	}
}
