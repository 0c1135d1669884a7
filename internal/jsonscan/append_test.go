package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendString(t *testing.T) {
	for _, s := range []string{
		"", "plain", `"`, `\`, "a\nb\tc\x00\x1f\x7f", "über ☃ \U0001F600", "\xff", "a\xc3(b", "<&>\u2028",
		strings.Repeat("ü\"", 100),
	} {
		got := AppendString([]byte("x"), s)
		var back string
		if err := json.Unmarshal(got[1:], &back); err != nil {
			t.Errorf("%q became %s: %v", s, got, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); got[0] != 'x' || back != want {
			t.Errorf("%q became %s, which is %q", s, got, back)
		}
	}
}
