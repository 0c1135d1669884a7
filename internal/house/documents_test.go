package house

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestDocumentsRun checks that what documents and package comments show is run somewhere: each Go program stands in a
// test, each make target exists, and each subcommand of regent is run by a test.
func TestDocumentsRun(t *testing.T) {
	tests := testSource(t)
	makefile := read(t, "Makefile")
	commands := read(t, "cmd/regent/main_test.go") + read(t, "cmd/regent/serve_test.go") +
		read(t, "cmd/regent/run_test.go") + read(t, "cmd/regent/slots_test.go") +
		read(t, "cmd/regent/golden_test.go") + read(t, "cmd/regent/configcmd_test.go") +
		read(t, "cmd/regent/steer_linux_test.go") + read(t, "cmd/regent/embedded_linux_test.go")

	for _, path := range files(t, ".md") {
		for _, block := range blocks(read(t, path), "go") {
			for line := range strings.Lines(block) {
				if l := flat(line); l != "" && !strings.Contains(tests, l) {
					t.Errorf("%s shows %q, which no test runs", path, strings.TrimSpace(line))
				}
			}
		}
		for _, block := range blocks(read(t, path), "sh") {
			for line := range strings.Lines(block) {
				words := strings.Fields(strings.Split(line, "#")[0])
				switch {
				case len(words) < 2:
				case words[0] == "make" && !strings.Contains(makefile, "\n"+words[1]+":"):
					t.Errorf("%s shows %q, which the Makefile lacks", path, line)
				case strings.HasSuffix(words[0], "regent") && !strings.Contains(commands, `"`+words[1]+`"`):
					t.Errorf("%s shows %q, which no test runs", path, line)
				}
			}
		}
	}

	for path, block := range packageBlocks(t) {
		for _, code := range block {
			switch {
			case isGo(code):
				if !strings.Contains(tests, flat(code)) {
					t.Errorf("the package comment in %s shows this program, which no test runs as a whole:\n%s", path,
						code)
				}
			case strings.Contains(code, ":="):
				t.Errorf("the package comment in %s shows a program that cannot be parsed:\n%s", path, code)
			}
		}
	}
}

// testSource returns the source of all tests, and of programs in directories named example, without comments and line
// breaks. Comments are left out since a program in a comment is not run.
func testSource(t *testing.T) string {
	t.Helper()

	var source strings.Builder
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/example/") {
			continue
		}
		for line := range strings.Lines(read(t, path)) {
			if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "//") {
				source.WriteString(flat(line))
			}
		}
	}

	return source.String()
}

// packageBlocks returns the code blocks of every package comment, by the file that has it.
func packageBlocks(t *testing.T) map[string][]string {
	t.Helper()

	found := map[string][]string{}
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f := parse(t, path, parser.PackageClauseOnly|parser.ParseComments)
		if f.Doc == nil {
			continue
		}
		var p comment.Parser
		for _, block := range p.Parse(f.Doc.Text()).Content {
			if code, ok := block.(*comment.Code); ok {
				found[path] = append(found[path], code.Text)
			}
		}
	}
	if len(found) < 5 {
		t.Fatalf("%d package comments show code", len(found))
	}

	return found
}

// isGo reports whether a text is Go: statements or declarations.
func isGo(code string) bool {
	for _, source := range []string{"package p\nfunc f() {\n" + code + "\n}", "package p\n" + code} {
		if _, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution); err == nil {
			return true
		}
	}

	return false
}

// flat takes the white space out, so that indentation does not matter.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") + " " }

// blocks returns the fenced code blocks of a language.
func blocks(markdown, language string) []string {
	var found []string
	for _, part := range strings.Split(markdown, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		found = append(found, block)
	}

	return found
}
