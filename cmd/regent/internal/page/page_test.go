package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/page"
)

func get(t *testing.T, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, r)

	return w
}

func TestHandler(t *testing.T) {
	t.Run("each_file_has_its_type_and_the_strict_policy", func(t *testing.T) {
		for path, kind := range map[string]string{
			"/": "text/html", "/page/app.js": "text/javascript", "/page/base.css": "text/css",
			"/page/icon.svg": "image/svg+xml",
		} {
			w := get(t, path, nil)
			if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
				t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
			}

			policy := w.Header().Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
				strings.Contains(policy, "http") || strings.Contains(policy, "*") {
				t.Errorf("%s: policy %s", path, policy)
			}
		}
	})

	t.Run("what_is_not_there_is_not_found", func(t *testing.T) {
		for _, path := range []string{"/page/nosuch.js", "/page/", "/page/../page.go", "/page/static/app.js"} {
			if w := get(t, path, nil); w.Code != 404 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})

	t.Run("a_file_that_has_not_changed_is_not_sent_again", func(t *testing.T) {
		tag := get(t, "/page/app.js", nil).Header().Get("ETag")
		w := get(t, "/page/app.js", http.Header{"If-None-Match": {tag}})
		if tag == "" || w.Code != 304 {
			t.Errorf("ETag %q, %d", tag, w.Code)
		}
	})
}

// TestFiles checks what a browser would refuse, or only notice at run time.
func TestFiles(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<style|<script(?:\s+type="module")?>|\sstyle=|\son[a-z]+="|javascript:`)
	outside := regexp.MustCompile(`https?://[^\s"']+`)
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|\beval\(|` +
		`localStorage|sessionStorage|document\.cookie`)
	imported := regexp.MustCompile(`from '\./([a-z]+\.js)'`)

	err := filepath.WalkDir("static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(b)

		if found := inline.FindString(text); found != "" && strings.HasSuffix(path, ".html") {
			t.Errorf("%s has %q, which the policy refuses", path, found)
		}
		if found := outside.FindString(text); found != "" && found != "http://www.w3.org/2000/svg" {
			t.Errorf("%s names %s: the page asks no other host", path, found)
		}
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s has %s: text is set as text, and nothing is stored", path, found)
		}
		if n := strings.Count(text, "\n"); n > 410 {
			t.Errorf("%s has %d lines", path, n)
		}

		for n, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 120 && !strings.HasSuffix(path, ".svg") {
				t.Errorf("%s:%d has %d columns", path, n+1, len([]rune(line)))
			}
		}
		for _, m := range imported.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("static", m[1])); err != nil {
				t.Errorf("%s imports %s, which is not there", path, m[1])
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReasons checks that the page has words for every reason by which a term ends.
func TestReasons(t *testing.T) {
	script := get(t, "/page/format.js", nil).Body.String()
	for _, r := range []regent.Reason{
		regent.ReasonShutdown, regent.ReasonReturned, regent.ReasonLost, regent.ReasonPartitioned, regent.ReasonHandoff,
		regent.ReasonSteppedDown, regent.ReasonPaused, regent.ReasonUnhealthy, regent.ReasonFenced,
		regent.ReasonPanicked, regent.ReasonExpired, regent.ReasonDied, regent.ReasonKilled, regent.ReasonRejoined,
		regent.ReasonAbandoned, regent.ReasonFirst, regent.ReasonForgotten,
	} {
		if !strings.Contains(script, "\n  "+string(r)+": '") && !strings.Contains(script, "\n  '"+string(r)+"': '") {
			t.Errorf("the page has no words for the reason %q", r)
		}
	}
}
