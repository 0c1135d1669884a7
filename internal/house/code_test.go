package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// codeWidth is how long a line of Go may be. A tab counts as four columns.
const codeWidth = 120

// TestCodeReadsPlainly checks Go files: comments and texts of production code for banned words, and all lines for their
// width.
func TestCodeReadsPlainly(t *testing.T) {
	words := map[*regexp.Regexp]string{}
	for pattern, instead := range banned {
		words[regexp.MustCompile(`(?i)\b(`+pattern+`)\b`)] = instead
	}

	for _, path := range files(t, ".go") {
		text := read(t, path)
		checkWidth(t, path, text)
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for line, prose := range proseOf(t, path, text) {
			for word, instead := range words {
				if found := word.FindString(prose); found != "" {
					t.Errorf("%s:%d: %q: write %s", path, line, found, instead)
				}
			}
		}
	}
}

func checkWidth(t *testing.T, path, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > codeWidth {
			t.Errorf("%s:%d: %d columns, code has at most %d", path, i+1, n, codeWidth)
		}
	}
}

// proseOf returns the comments and the string literals of a file, by the line that they begin in.
func proseOf(t *testing.T, path, text string) map[int]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}

	prose := map[int]string{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			prose[set.Position(c.Pos()).Line] += " " + c.Text
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			prose[set.Position(lit.Pos()).Line] += " " + lit.Value
		}
		return true
	})
	return prose
}
