package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

const (
	// tokenHeader is the header that carries the token of the page. A page of another site can neither read the token
	// nor send the header without being asked for permission, which nobody gives.
	tokenHeader = "Regent-Demo"

	// maxPage is the largest document that buttons are added to, in bytes.
	maxPage = 1 << 20

	// pressTimeout is how long a button waits until the demo takes it: as long as any fault takes that is played now.
	pressTimeout = 30 * time.Second
)

// front serves the page of the demo: that of a node, with a button for each fault. Nodes know nothing of faults. The
// front listens on loopback, and ends with the demo.
type front struct {
	addr    string
	token   string
	faults  []fault
	said    *said
	presses chan byte // keys, as the terminal has them
	timeout time.Duration

	server *http.Server
	ending context.CancelFunc
}

// newFront serves the page of the node at an address.
func newFront(node string, faults []fault, s *said) (*front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	f := &front{addr: l.Addr().String(), token: rand.Text(), faults: faults, said: s, presses: make(chan byte),
		timeout: pressTimeout}
	ctx, cancel := context.WithCancel(context.Background())
	f.ending = cancel
	f.server = &http.Server{
		Handler: f.handler(node), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = f.server.Serve(l) }()

	return f, nil
}

// close ends the front, and the streams of its pages.
func (f *front) close() {
	f.ending()
	_ = f.server.Close()
}

// handler returns the handler of all requests. A page whose own name resolves to this machine must not read the token,
// so that the host must be a loopback address, or localhost.
func (f *front) handler(node string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", f.proxy(node))
	mux.HandleFunc("GET /demo/{file}", f.file)
	mux.HandleFunc("GET /demo/lines", f.lines)
	mux.HandleFunc("POST /demo/faults/{fault}", f.press)
	checked := http.NewCrossOriginProtection().Handler(mux)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("host %.100q: the demo answers as %s alone",
				r.Host, f.addr))
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host header names this machine's loopback interface.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))

	return err == nil && ip.IsLoopback()
}

// proxy passes requests on to a node, and adds the buttons to its page.
func (f *front) proxy(node string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: node})
			r.Out.Host = r.In.Host // the node compares it with the Origin of a write
			if r.In.URL.Path == "/" {
				r.Out.Header.Del("If-None-Match") // the node does not know the document with the buttons
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/" || r.StatusCode != http.StatusOK {
				return nil
			}
			return f.addButtons(r)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				refuse(w, http.StatusBadGateway, "the node of this page does not answer: "+err.Error())
			}
		},
	}
}

// addButtons adds the buttons to the document of the page.
func (f *front) addButtons(r *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPage))
	if err != nil {
		return err
	}
	if body, err = f.withButtons(body); err != nil {
		return err
	}

	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.Header.Set("Cache-Control", "no-store") // the token is for this demo
	r.Header.Del("ETag")

	return nil
}

// withButtons returns a document with the buttons in it.
func (f *front) withButtons(document []byte) ([]byte, error) {
	var buttons strings.Builder
	for _, one := range f.faults {
		fmt.Fprintf(&buttons, "    <button type=\"button\" data-fault=%q title=\"%s\">%s</button>\n",
			one.id, html.EscapeString(one.text), html.EscapeString(one.button))
	}

	parts := []struct{ before, add string }{
		{"</head>", "<meta name=\"regent-demo\" content=\"" + f.token + "\">\n" +
			"<link rel=\"stylesheet\" href=\"/demo/demo.css\">\n" +
			"<script type=\"module\" src=\"/demo/demo.js\"></script>\n"},
		{"<main ", "<aside id=\"demo\" class=\"demo\" aria-label=\"Demo\">\n" +
			"  <div class=\"demo-buttons\" role=\"group\" aria-label=\"Faults of the demo\">\n" +
			"    <strong>Demo</strong>\n" + buttons.String() + "  </div>\n" +
			"  <p id=\"demo-result\" role=\"alert\"></p>\n" +
			"  <div id=\"demo-lines\" role=\"log\" aria-label=\"What the demo does\"></div>\n</aside>\n\n"},
	}
	for _, p := range parts {
		if bytes.Count(document, []byte(p.before)) != 1 {
			return nil, fmt.Errorf("the page has no place for the buttons of the demo: %q", p.before)
		}
		document = bytes.Replace(document, []byte(p.before), []byte(p.add+p.before), 1)
	}

	return document, nil
}

// file serves the script and the style of the buttons.
func (f *front) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	body, err := static.ReadFile("static/" + name)
	if err != nil {
		refuse(w, http.StatusNotFound, "the demo has no such file: "+name)
		return
	}

	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(body)
}

// news is what a page shows of the demo.
type news struct {
	Lines   []string `json:"lines"`
	Playing string   `json:"playing"` // the fault that is played; empty for none
}

// lines is a stream of what the demo says, for the page.
func (f *front) lines(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // an ID that is no number is none

	for {
		lines, next, playing, changed := f.said.after(from)
		b, err := json.Marshal(news{Lines: lines, Playing: playing})
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", next, b); err != nil || out.Flush() != nil {
			return
		}
		from = next

		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// press plays a fault, as its key does.
func (f *front) press(w http.ResponseWriter, r *http.Request) {
	given := r.Header.Get(tokenHeader)
	if subtle.ConstantTimeCompare([]byte(given), []byte(f.token)) != 1 {
		refuse(w, http.StatusForbidden, "only the page of this demo may do this: the header "+tokenHeader+
			" must have the token of the page; reload the page")
		return
	}

	key, err := f.key(r.PathValue("fault"))
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}

	select {
	case f.presses <- key:
		w.WriteHeader(http.StatusAccepted)
	case <-r.Context().Done():
	case <-time.After(f.timeout):
		_, _, playing, _ := f.said.after(0)
		refuse(w, http.StatusConflict, fmt.Sprintf("the demo still plays %q: wait until it has ended", playing))
	}
}

// key returns the key of a fault.
func (f *front) key(id string) (byte, error) {
	var known []string
	for _, one := range f.faults {
		if one.id == id {
			return one.key, nil
		}
		known = append(known, one.id)
	}

	return 0, errors.New("no such fault: " + strconv.Quote(id) + "; there are " + strings.Join(known, ", "))
}

// refuse answers with an error, in the form of a node's API.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": "demo", "error": text})
}
