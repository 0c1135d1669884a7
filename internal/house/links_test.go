package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinks checks that every relative link of a document leads to a file or directory that is there, and to a heading
// that it has.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, document := range files(t, ".md") {
		for _, found := range link.FindAllStringSubmatch(withoutCode(read(t, document)), -1) {
			target := found[1]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = document
			} else {
				file = path.Join(path.Dir(document), file)
			}

			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which is not there", document, target)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", document, target, file)
			}
		}
	}
}

// withoutCode takes out fenced blocks of a document.
func withoutCode(markdown string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(markdown, "")
}

// anchors returns the names by which the headings of a document are linked to.
func anchors(markdown string) []string {
	var found []string
	times := map[string]int{}
	for line := range strings.Lines(withoutCode(markdown)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		name = strings.ReplaceAll(name, " ", "-")
		if n := times[name]; n > 0 {
			found = append(found, name+"-"+string(rune('0'+n)))
		} else {
			found = append(found, name)
		}
		times[name]++
	}

	return found
}
