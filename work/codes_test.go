package work

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent"
)

// TestCodes checks that each error of a worker has its code.
func TestCodes(t *testing.T) {
	task := func(kind string, epoch string) string {
		return `{"election":"e","epoch":` + epoch + `,"tasks":[{"id":"1","kind":"` + kind + `"}]}`
	}
	for _, c := range []struct {
		name   string
		worker *Worker
		method string
		path   string
		body   string
		status int
		code   string
	}{
		{"no_error", &Worker{}, "POST", "/", task("do", "7"), 200, ""},
		{"a_body_that_is_not_JSON", &Worker{}, "POST", "/", "nonsense", 400, "invalid_request"},
		{"no_signature", &Worker{Token: "secret"}, "POST", "/", task("do", "7"), 401, "unauthorized"},
		{"another_method", &Worker{}, "GET", "/", "", 405, "method_not_allowed"},
		{"an_old_epoch", &Worker{}, "POST", "/", task("do", "3"), 409, "epoch_passed"},
		{"results_for_an_old_epoch", &Worker{}, "POST", "/results", `{"election":"e","epoch":3}`, 409, "epoch_passed"},
		{"a_restart_without_a_journal", &Worker{}, "POST", "/",
			`{"election":"e","epoch":7,"tasks":[{"id":"1","kind":"do","tried":"before"}]}`, 410, "forgotten"},
		{"a_large_body", &Worker{}, "POST", "/", `"` + strings.Repeat("x", maxBody) + `"`, 413, "body_too_large"},
		{"no_handler", &Worker{}, "POST", "/", task("other", "7"), 422, "unknown_kind"},
		{"no_room", &Worker{Concurrency: 1, Queue: 1}, "POST", "/",
			`{"election":"e","epoch":7,"tasks":[{"id":"1","kind":"wait"},{"id":"2","kind":"do"},` +
				`{"id":"3","kind":"do"}]}`,
			429, "busy"},
		{"a_journal_that_cannot_be_opened", &Worker{Journal: filepath.Join(t.TempDir(), "no", "journal")}, "POST", "/",
			task("do", "7"), 500, "worker_error"},
		{"an_epoch_file_that_cannot_be_written",
			&Worker{Fence: &regent.Fence{Path: filepath.Join(t.TempDir(), "no", "epoch")}}, "POST", "/",
			task("do", "7"), 503, "fence_error"},
		{"stopping", &Worker{stopping: true}, "POST", "/", task("do", "7"), 503, "stopping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.worker
			w.Election = "e"
			w.Handle("do", func(context.Context, Task) (json.RawMessage, error) { return nil, nil })
			w.Handle("wait", func(ctx context.Context, _ Task) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			if c.code == codeStale {
				check(t, w.Open())
				check(t, w.Fence.Learn(regent.Token{Epoch: 7}))
			}

			answer := httptest.NewRecorder()
			w.ServeHTTP(answer, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			var v receipt
			check(t, json.Unmarshal(answer.Body.Bytes(), &v))
			if answer.Code != c.status || v.Code != c.code || (v.Error == "") != (c.status == http.StatusOK) {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			if w.openErr == nil {
				check(t, w.Close())
			}
		})
	}
}
