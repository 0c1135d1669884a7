package api_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/memstore"
)

// TestErrorsAreJSON asks for errors that the handlers of net/http would answer as text.
func TestErrorsAreJSON(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)

	for _, c := range []struct {
		name, method, path string
		header             []string
		status             int
		code, text         string
	}{
		{"a_path_that_is_not_there", "GET", "/v2/status", nil, 404, "unknown_path", `there is no path "/v2/status"`},
		{"a_file_that_the_page_has_not", "GET", "/page/other.js", nil, 404, "unknown_path",
			`there is no path "/page/other.js"`},
		{"a_method_that_a_path_does_not_take", "GET", "/v1/elections/seat/pause", nil, 405, "method_not_allowed",
			"/v1/elections/seat/pause does not take GET, but POST"},
		{"a_write_from_another_site", "POST", "/v1/elections/seat/pause", []string{"Sec-Fetch-Site", "cross-site"},
			403, "cross_origin", "a page of another site"},
		{"another_host", "GET", "/leader", []string{"Host", "evil.example"}, 421, "unknown_host",
			`host "evil.example"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := a.ask(c.method, c.path, "", c.header...)
			text, _ := body["error"].(string)
			if status != c.status || body["code"] != c.code || !strings.Contains(text, c.text) {
				t.Errorf("%d %v", status, body)
			}
		})
	}

	t.Run("a_405_names_the_methods_in_its_header", func(t *testing.T) {
		resp, err := a.server.Client().Post(a.server.URL+"/leader", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", resp.Status, resp.Header)
		}
	})
}

// TestHandOffErrors checks that the errors of a handoff name what a caller over HTTP can change.
func TestHandOffErrors(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	ask := func(body, want string) {
		t.Helper()
		status, answer := a.ask("POST", "/v1/elections/seat/handoff", body)
		text, _ := answer["error"].(string)
		if status != 422 || answer["code"] != "refused" || !strings.Contains(text, want) ||
			strings.Contains(text, "StepDown") {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	ask(`{"epoch":1}`, "to must name the successor")
	a.post("/v1/elections/seat/pause", `{"epoch":1}`)
	ask(`{"epoch":1,"to":"b"}`, "resume it first, or use step-down")
}

// TestCodesAreDocumented compares the codes of errors with the table of docs/HTTP.md.
func TestCodesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("answer.go")
	if err != nil {
		t.Fatal(err)
	}

	document, err := os.ReadFile("../../../../docs/HTTP.md")
	if err != nil {
		t.Fatal(err)
	}

	codes := regexp.MustCompile(`Code = "(\w+)" +// (\d+)`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 15 {
		t.Fatalf("%d codes", len(codes))
	}

	for _, c := range codes {
		if !strings.Contains(string(document), "| `"+c[1]+"` | "+c[2]+" |") {
			t.Errorf("docs/HTTP.md has no row for code %s with status %s", c[1], c[2])
		}
	}

	source, err = os.ReadFile("../../../../work/codes.go")
	if err != nil {
		t.Fatal(err)
	}

	ofWorkers := regexp.MustCompile(`\tcode\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(ofWorkers) < 10 {
		t.Fatalf("%d codes of workers", len(ofWorkers))
	}

	for _, w := range ofWorkers {
		if !slices.ContainsFunc(codes, func(c []string) bool { return c[1] == w[1] }) {
			t.Errorf("answer.go has no code %s, which a worker answers with", w[1])
		}
	}

	if rows := regexp.MustCompile("(?m)^\\| `[a-z_]+` \\| \\d{3} \\|").FindAll(document, -1); len(rows) != len(codes) {
		t.Errorf("docs/HTTP.md has %d rows for %d codes", len(rows), len(codes))
	}
}
