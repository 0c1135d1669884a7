package work_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// TestHugeAnswers has workers answer with far more than they were asked for.
func TestHugeAnswers(t *testing.T) {
	leaks(t)
	many := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	full := `{"id":"a","kind":"do","epoch":1,"outcome":"done","beganMs":1,"tookUs":1}`
	for name, c := range map[string]struct{ answer, want string }{
		"results": {`{"session":"s","next":1,"results":[` + many(1025, `{"id":"a"}`) + `]}`,
			"a list has more than 1024 elements"},
		"results_in_short_form": {`{"session":"s","next":1,"results":[` + many(1025, full) + `]}`,
			"a list has more than 1024 elements"},
		"running": {`{"session":"s","next":1,"running":[` + many(1<<18+1, `"a"`) + `],"results":[]}`,
			"a list has more than 262144 elements"},
		"bytes": {`{"session":"s","next":1,"error":"` + strings.Repeat("x", 16<<20) + `"}`,
			"more than 16777216 bytes"},
		"no_list":              {`{"session":"s","next":1,"results":{"id":"a"}}`, "must be a list"},
		"as_many_as_are_asked": {`{"session":"s","next":1,"results":[` + many(1024, full) + `]}`, ""},
		"none":                 {`{"session":"s","next":1,"running":null,"results":null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, c.answer)
			}))

			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			p := lead(t, memstore.New(), "a").pool(t, work.Options{})
			p.Add("w", s.Listener.Addr().String())
			good := func(v work.WorkerView) bool {
				return c.want == "" && v.Ready && v.Err == nil || c.want != "" && v.Err != nil &&
					strings.Contains(v.Err.Error(), c.want)
			}

			for deadline := time.Now().Add(time.Minute); !good(p.Workers()[0]); <-time.After(time.Millisecond) {
				if v := p.Workers()[0]; time.Now().After(deadline) || c.want != "" && v.Ready {
					t.Fatalf("%.300s", fmt.Sprintf("%+v", v))
				}
			}
		})
	}
}
