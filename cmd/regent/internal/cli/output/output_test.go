package output

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is written by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestTable(t *testing.T) {
	var b strings.Builder
	p := &Printer{Out: &b}
	rows := &Rows{Header: []string{"NAME", "EMPTY", "STATE"}}
	rows.Add(C("a"), C(""), C("up"))
	rows.Add(C("longer"), C(""), Toned("down\x1b[31m", Bad))
	p.Table(rows)
	if want := "NAME    STATE\na       up\nlonger  down?[31m\n"; b.String() != want {
		t.Errorf("got\n%q, want\n%q", b.String(), want)
	}
}

func TestData(t *testing.T) {
	value := struct {
		Name string   `json:"name"`
		Yes  string   `json:"yes"`
		List []string `json:"list"`
	}{"a<b", "true", []string{"x"}}
	for format, want := range map[Format]string{
		JSON: "{\n  \"name\": \"a<b\",\n  \"yes\": \"true\",\n  \"list\": [\n    \"x\"\n  ]\n}\n",
		YAML: "name: a<b\nyes: \"true\"\nlist:\n  - x\n",
	} {
		var b strings.Builder
		if err := (&Printer{Out: &b, Format: format}).Data(value); err != nil || b.String() != want {
			t.Errorf("%s: %v, %q, want %q", format, err, b.String(), want)
		}
	}
}

func TestFormat(t *testing.T) {
	var f Format
	if err := f.Set("xml"); err == nil || !strings.Contains(err.Error(), "table, json or yaml") {
		t.Errorf("%v", err)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "-", 12 * time.Millisecond: "12 ms", 4200 * time.Millisecond: "4.2 s", 312 * time.Second: "5m12s",
		26 * time.Hour: "26h00m", 76 * time.Hour: "3d4h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Run("something_quick_says_nothing", func(t *testing.T) {
		var b buffer
		progress(&b, "asking", time.Hour, false)()
		if b.String() != "" {
			t.Errorf("%q", b.String())
		}
	})

	for name, c := range map[string]struct {
		redraw bool
		want   string
	}{"a_pipe_gets_one_line": {false, "asking …\n"}, "a_terminal_is_cleaned": {true, "\r\x1b[K"}} {
		t.Run(name, func(t *testing.T) {
			var b buffer
			done := progress(&b, "asking", time.Millisecond, c.redraw)
			for limit := time.Now().Add(time.Minute); b.String() == "" && time.Now().Before(limit); {
				<-time.After(time.Millisecond)
			}
			done()
			if !strings.HasSuffix(b.String(), c.want) || !strings.Contains(b.String(), "asking …") {
				t.Errorf("%q", b.String())
			}
		})
	}
}

func TestColours(t *testing.T) {
	var b strings.Builder
	if Colours(&b, nil) || (&Printer{Colour: true}).Paint("x", Bad) == "x" || (&Printer{}).Paint("x", Bad) != "x" {
		t.Error("colour follows the stream")
	}
}
