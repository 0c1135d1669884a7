package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDiagramsShowTheTraces compares the sequence diagrams of docs/ARCHITECTURE.md with the golden traces that they are
// made from. With REGENT_UPDATE=1 it writes them.
func TestDiagramsShowTheTraces(t *testing.T) {
	file := filepath.Join(root, "docs", "ARCHITECTURE.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	found := 0
	block := regexp.MustCompile("(?s)<!-- trace: (\\w+) -->\n.*?<!-- end of trace -->")
	current := block.ReplaceAllStringFunc(string(text), func(old string) string {
		found++
		name := block.FindStringSubmatch(old)[1]
		return fmt.Sprintf("<!-- trace: %s -->\n```mermaid\n%s```\n<!-- end of trace -->", name, diagram(t, name))
	})
	switch {
	case found < 3:
		t.Errorf("%d diagrams, want three", found)
	case current == string(text):
	case os.Getenv("REGENT_UPDATE") != "":
		if err := os.WriteFile(file, []byte(current), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/ARCHITECTURE.md differs from the traces: " +
			"REGENT_UPDATE=1 go test -run TestDiagrams ./internal/house")
	}
}

// traceLine is a line of a golden trace: when, who, what, the rule if any, and the text.
var traceLine = regexp.MustCompile(`^ +([\d.]+)  (\w+) +(input|decision|effect|world) +(\d*) +(\S.*)$`)

var (
	requestText = regexp.MustCompile(`^request (\d+): (.*)$`)
	answerText  = regexp.MustCompile(`^answer to (\d+): (.*)$`)
)

// diagram returns a trace as a sequence diagram, up to the beginning of the term that it is about. What a member does
// for its own heartbeat is left out.
func diagram(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(root, "internal", "sim", "cores", "testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}

	d := &sequence{shown: map[string]bool{}}
	for line := range strings.Lines(string(text)) {
		m := traceLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		d.add(m[2], m[3], m[4], m[5])
		if strings.HasPrefix(m[5], "begin term") && d.steps > 3 {
			break
		}
	}
	return "sequenceDiagram\n    participant a\n    participant S as store\n    participant b\n" + d.out.String()
}

// sequence is a diagram that is being written.
type sequence struct {
	out   strings.Builder
	shown map[string]bool // the requests whose answers are shown
	steps int
}

// add writes one line of a trace, if a reader needs it.
func (d *sequence) add(who, what, rule, text string) {
	request := requestText.FindStringSubmatch(text)
	answer := answerText.FindStringSubmatch(text)
	heartbeat := strings.Contains(text, "regent/member/"+who)
	switch {
	case request != nil && !heartbeat:
		d.shown[who+request[1]] = true
		d.line("%s->>S: %s", who, request[2])
	case answer != nil && d.shown[who+answer[1]]:
		d.line("S-->>%s: %s", who, answer[2])
	case what == "input" && strings.HasPrefix(text, "notification: e "):
		d.line("S-)%s: %s", who, text)
	case what == "decision" && !heartbeat:
		d.line("Note over %s: rule %s: %s", who, rule, text)
	case what == "world" && !strings.HasPrefix(text, "the store takes") && !strings.HasPrefix(text, "starts"),
		what == "input" && strings.HasPrefix(text, "asked"),
		strings.HasPrefix(text, "the duty of"), strings.HasPrefix(text, "begin term"), strings.HasPrefix(text,
			"end term"):
		d.line("Note over %s: %s", who, text)
	}
}

// line writes one line of the diagram. Mermaid ends a statement at a semicolon or a number sign.
func (d *sequence) line(format string, args ...any) {
	d.steps++
	text := strings.NewReplacer(";", ",", "#", "").Replace(fmt.Sprintf(format, args...))
	d.out.WriteString("    " + text + "\n")
}
