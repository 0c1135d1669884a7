package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/page"
)

// open starts a front before a node that has the page alone, with one fault.
func open(t *testing.T) (f *front, get func(path string) (*http.Response, string)) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page.Handler())
	mux.Handle("GET /page/{file}", page.Handler())
	mux.HandleFunc("POST /v1/verb", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.Header.Get("Origin"))
	})
	node := httptest.NewServer(mux)
	t.Cleanup(node.Close)

	f, err := newFront(node.Listener.Addr().String(),
		[]fault{{key: 'k', id: "kill", button: "Kill <it>", text: `a "text"`}}, newSaid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)

	return f, func(path string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+f.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer(t, r)
	}
}

func answer(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return resp, string(b)
}

// post returns a request that presses a button.
func (f *front) post(t *testing.T, fault string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+f.addr+"/demo/faults/"+fault, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(tokenHeader, f.token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}

	return r
}

func TestFrontServesThePageWithButtons(t *testing.T) {
	f, get := open(t)
	plain := httptest.NewRecorder()
	page.Handler().ServeHTTP(plain, httptest.NewRequest(http.MethodGet, "/", nil))

	resp, body := get("/")
	for _, part := range []string{`content="` + f.token + `"`,
		`data-fault="kill" title="a &#34;text&#34;">Kill &lt;it&gt;<`,
		`src="/demo/demo.js"`, `href="/demo/demo.css"`, `src="/page/app.js"`} {
		if !strings.Contains(body, part) {
			t.Errorf("the page has no %s", part)
		}
	}

	t.Run("the_policy_is_that_of_every_page", func(t *testing.T) {
		const policy = "Content-Security-Policy"
		if got := resp.Header.Get(policy); got == "" || got != plain.Header().Get(policy) {
			t.Errorf("%s: %q", policy, got)
		}
		if regexp.MustCompile(`<style|<script(?:\s+type="module")?>|\sstyle=|\son[a-z]+=`).MatchString(body) {
			t.Error("the page has a script or a style in the document, which the policy refuses")
		}
	})

	t.Run("it_is_not_kept_for_another_demo", func(t *testing.T) {
		if resp.Header.Get("ETag") != "" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", resp.Header)
		}
	})

	t.Run("its_files_have_their_types", func(t *testing.T) {
		for path, kind := range map[string]string{"/demo/demo.js": "text/javascript", "/demo/demo.css": "text/css",
			"/page/app.js": "text/javascript"} {
			resp, _ := get(path)
			if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) {
				t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
			}
		}
		if resp, _ := get("/demo/nosuch.js"); resp.StatusCode != 404 {
			t.Errorf("/demo/nosuch.js: %d", resp.StatusCode)
		}
	})

	t.Run("a_page_without_a_place_for_them_is_an_error", func(t *testing.T) {
		if _, err := f.withButtons([]byte("<html></html>")); err == nil {
			t.Error("the buttons are nowhere, and nobody says so")
		}
	})

	t.Run("a_node_has_none_of_it", func(t *testing.T) {
		if strings.Contains(plain.Body.String(), "demo") {
			t.Error("the page of a node mentions the demo")
		}
	})
}

func TestFrontPresses(t *testing.T) {
	f, _ := open(t)

	t.Run("a_button_is_a_key", func(t *testing.T) {
		keys := make(chan byte, 1)
		go func() { keys <- <-f.presses }()
		if resp, body := answer(t, f.post(t, "kill")); resp.StatusCode != http.StatusAccepted || <-keys != 'k' {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	})

	t.Run("the_origin_reaches_the_node_with_its_host", func(t *testing.T) { // which compares them
		r, _ := http.NewRequest(http.MethodPost, "http://"+f.addr+"/v1/verb", nil)
		r.Header.Set("Origin", "http://"+f.addr)
		if _, body := answer(t, r); body != f.addr+" http://"+f.addr {
			t.Error(body)
		}
	})

	refused := map[string]struct {
		request *http.Request
		status  int
		text    string
	}{
		"without_the_token":          {f.post(t, "kill", tokenHeader, ""), 403, "token of the page"},
		"with_another_token":         {f.post(t, "kill", tokenHeader, "x"), 403, "token of the page"},
		"from_another_site":          {f.post(t, "kill", "Origin", "http://elsewhere.test"), 403, ""},
		"from_another_site_by_fetch": {f.post(t, "kill", "Sec-Fetch-Site", "cross-site"), 403, ""},
		"of_an_unknown_fault":        {f.post(t, "kil"), 404, `no such fault: "kil"; there are kill`},
		"while_one_is_played":        {f.post(t, "kill"), 409, `still plays "freeze"`},
	}
	f.said.play("freeze") // and nobody takes another key
	f.timeout = 100 * time.Millisecond
	for name, c := range refused {
		t.Run("a_press_"+name+"_is_refused", func(t *testing.T) {
			if resp, body := answer(t, c.request); resp.StatusCode != c.status || !strings.Contains(body,
				strings.ReplaceAll(c.text, `"`, `\"`)) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}

	t.Run("a_name_that_resolves_to_this_machine_is_refused", func(t *testing.T) {
		for host, want := range map[string]int{"rebound.test": 421, "192.0.2.1": 421, "localhost": 200,
			"127.0.0.1:1": 200, "[::1]:1": 200} {
			r, _ := http.NewRequest(http.MethodGet, "http://"+f.addr+"/", nil)
			r.Host = host
			if resp, _ := answer(t, r); resp.StatusCode != want {
				t.Errorf("host %s: %d, want %d", host, resp.StatusCode, want)
			}
		}
	})
}

func TestFrontStreamsWhatTheDemoSays(t *testing.T) {
	f, _ := open(t)
	for range maxSaid + 5 {
		f.said.add("before")
	}
	f.said.play("freeze")
	f.said.add("frozen")

	read := func(last string) (news, *bufio.Scanner) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+"/demo/lines", nil)
		r.Header.Set("Last-Event-ID", last)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		in := bufio.NewScanner(resp.Body)
		return next(t, in), in
	}

	first, stream := read("")
	if len(first.Lines) != maxSaid || first.Lines[maxSaid-1] != "frozen" || first.Playing != "freeze" {
		t.Errorf("%d lines, playing %q", len(first.Lines), first.Playing)
	}
	f.said.play("")
	if n := next(t, stream); n.Playing != "" || len(n.Lines) != 0 {
		t.Errorf("%+v", n)
	}
	f.said.add("over")
	if n := next(t, stream); len(n.Lines) != 1 || n.Lines[0] != "over" {
		t.Errorf("%+v", n)
	}

	if again, _ := read("106"); len(again.Lines) != 1 || again.Lines[0] != "over" {
		t.Errorf("after a lost connection: %+v", again)
	}
}

// next returns the next message of a stream.
func next(t *testing.T, in *bufio.Scanner) (n news) {
	t.Helper()
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the stream has ended")
	return n
}
