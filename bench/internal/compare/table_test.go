package compare

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for n, want := range map[number]string{0: "0", 1: "1", 0.0123: "0.012", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3",
		123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", -1234567: "-1,234,567"} {
		if got := n.String(); got != want {
			t.Errorf("%v is written %q, want %q", float64(n), got, want)
		}
	}

	if none.String() != "" {
		t.Errorf("what was not measured is written %q", none)
	}
	b, err := json.Marshal(row{"a", []number{1.5, none}})
	if err != nil || string(b) != `{"side":"a","values":[1.5,null]}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	f := figure{Name: "x", Title: "X", Tables: []table{{Title: "ms", Columns: []string{"p50", "p99"},
		Rows: []row{{"a", []number{1, none}}}, Notes: []string{"Note."}}}}
	if err := f.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if want := "| ms | p50 | p99 |\n|---|---|---|\n| a | 1 |  |\n\nNote.\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%s lacks %s", b.String(), want)
	}
}
