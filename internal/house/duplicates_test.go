package house

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// How many lines in a row two files may share, without blank lines, comments, imports and lines without a word: fewer
// than this.
const (
	sharedLines     = 6  // by production code
	sharedTestLines = 10 // by tests
)

// mayShare are pairs of files that share lines, and why these are not in one place.
var mayShare = map[[2]string]string{
	{"store/postgres/notify.go", "store/redis/notify.go"}: "their locks guard more than the subscriptions, and each " +
		"begins and ends its listening in its own way: a common part would need a callback for every line",
}

// TestNoTwoFilesShareLines finds code that stands in two files. What both need belongs in one place.
func TestNoTwoFilesShareLines(t *testing.T) {
	var production, tests []string
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			tests = append(tests, path)
		} else {
			production = append(production, path)
		}
	}

	for _, d := range duplicates(t, production, sharedLines) {
		t.Error(d)
	}
	for _, d := range duplicates(t, tests, sharedTestLines) {
		t.Error(d)
	}
}

// codeLine is a line of a file that counts.
type codeLine struct {
	path   string
	number int
	text   string
}

// duplicates describes the places at which two files share so many lines.
func duplicates(t *testing.T, paths []string, least int) []string {
	t.Helper()
	lines := map[string][]codeLine{}
	seen := map[string][2]string{} // the first file that has these lines, and where
	found := map[string]string{}   // by the two files: the first lines that they share
	for _, path := range paths {
		lines[path] = codeLines(path, read(t, path))
		all := lines[path]
		for i := 0; i+least <= len(all); i++ {
			run := make([]string, least)
			for k := range run {
				run[k] = all[i+k].text
			}

			key := strings.Join(run, "\n")
			where := fmt.Sprintf("%s:%d", path, all[i].number)
			first, ok := seen[key]
			switch {
			case !ok:
				seen[key] = [2]string{path, where}
			case first[0] != path && mayShare[[2]string{first[0], path}] == "" && found[first[0]+path] == "":
				found[first[0]+path] = fmt.Sprintf("%s and %s share %d lines or more: %s",
					first[1], where, least, run[0])
			}
		}
	}

	all := make([]string, 0, len(found))
	for _, text := range found {
		all = append(all, text)
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all
}

// codeLines returns the lines of a Go file that count.
func codeLines(path, text string) []codeLine {
	var all []codeLine
	imports := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "import (":
			imports = true
		case imports:
			imports = line != ")"
		case strings.HasPrefix(line, "//"), strings.HasPrefix(line, "import "), strings.HasPrefix(line, "package "):
		case strings.HasPrefix(line, "_ driver."): // what a store implements
		case strings.ContainsFunc(line, isLetter):
			all = append(all, codeLine{path, i + 1, line})
		}
	}
	return all
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
