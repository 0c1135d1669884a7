// Package page serves the web page of a node: plain files that are part of the binary. The page asks the node that
// served it, and nothing else, for its data.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy is what the browser allows the page: its own files and its own node. It allows no inline script or style, no
// other host, no frame, and no form that would send a token somewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Prefix is the path of all files of the page but the document itself, which is at "/".
const Prefix = "/page/"

// file is a file of the page, as it is sent.
type file struct {
	body []byte
	kind string
	tag  string
}

// Handler returns the handler of "/" and of the paths below [Prefix].
func Handler() http.Handler {
	files := load()

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, Prefix)
		if r.URL.Path == "/" {
			name = "index.html"
		}

		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}

		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // ask each time: a node that was updated has other files
		h.Set("ETag", f.tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
	})
}

// load reads all files. They are part of the binary, so that it cannot fail.
func load() map[string]file {
	files := map[string]file{}
	entries, _ := fs.ReadDir(static, "static")

	for _, e := range entries {
		body, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			continue
		}

		sum := sha256.Sum256(body)
		files[e.Name()] = file{body, kind(e.Name()), `"` + hex.EncodeToString(sum[:8]) + `"`}
	}

	return files
}

// kind returns the media type of a file. A machine's own table could say otherwise for scripts, and then no browser
// would run them.
func kind(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}

	return mime.TypeByExtension(path.Ext(name))
}
