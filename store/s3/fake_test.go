package s3

import (
	"crypto/md5"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
)

// fake is the smallest server that passes every sequence of conditional writes, and fails a race: it checks, and writes
// afterwards. It shows what the race of Open is for, and stands in for no real server.
type fake struct {
	mu      sync.Mutex // of the map alone
	objects map[string][]byte
	ignores bool // conditions
}

func startFake(t *testing.T) (*fake, string) {
	f := &fake{objects: map[string][]byte{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

func (f *fake) get(key string) (body []byte, etag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, ok := f.objects[key]
	if !ok {
		return nil, ""
	}
	sum := md5.Sum(body)
	return body, `"` + hex.EncodeToString(sum[:]) + `"`
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	body, etag := f.get(r.URL.Path)
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
	}
	switch r.Method {
	case http.MethodGet:
		if etag == "" {
			fail(http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", etag)
		_, _ = w.Write(body)
	case http.MethodPut:
		wanted := r.Header.Get("If-Match")
		if !f.ignores && (r.Header.Get("If-None-Match") == "*" && etag != "" || wanted != "" && wanted != etag) {
			fail(http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		for range 100 { // other requests are checked meanwhile
			runtime.Gosched()
		}
		f.mu.Lock()
		f.objects[r.URL.Path] = sent
		f.mu.Unlock()
		_, etag = f.get(r.URL.Path)
		w.Header().Set("ETag", etag)
	case http.MethodDelete:
		f.mu.Lock()
		delete(f.objects, r.URL.Path)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}
}
