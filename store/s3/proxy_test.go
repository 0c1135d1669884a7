package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// proxy stands between stores and a server, and does to requests what its fault says.
type proxy struct {
	*httptest.Server
	backend string

	mu    sync.Mutex
	fault func(r *http.Request) fault
	seen  []request
	held  []*heldRequest
	gone  chan struct{} // closed when the test ends
}

// fault is what becomes of one request.
type fault func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte)

// request is one that the proxy has seen.
type request struct {
	method, key  string
	ifMatch      string
	ifNoneMatch  string
	answered     int // the status, or 0
	answeredWith int // bytes of the body
}

func startProxy(t testing.TB, backend string) *proxy {
	t.Helper()
	p := &proxy{backend: backend, gone: make(chan struct{})}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		close(p.gone)
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// set sets what becomes of requests from now on; nil passes all.
func (p *proxy) set(f func(r *http.Request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// all makes every request fail alike.
func (p *proxy) all(f fault) { p.set(func(*http.Request) fault { return f }) }

// requests returns the requests since the last call.
func (p *proxy) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	choose := p.fault
	p.mu.Unlock()
	f := fault(pass)
	if choose != nil {
		if chosen := choose(r); chosen != nil {
			f = chosen
		}
	}
	f(p, w, r, body)
}

// note keeps a request.
func (p *proxy) note(r *http.Request, status, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, request{
		method: r.Method, key: strings.TrimPrefix(r.URL.Path, "/"+bucket+"/"), ifMatch: r.Header.Get("If-Match"),
		ifNoneMatch: r.Header.Get("If-None-Match"), answered: status, answeredWith: size,
	})
}

// forward sends a request on as it came, and returns the answer with its body.
func (p *proxy) forward(ctx context.Context, r *http.Request, body []byte) (*http.Response, []byte) {
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL = &url.URL{
		Scheme: "http", Host: strings.TrimPrefix(p.backend, "http://"),
		Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
	}
	out.Host = r.Host // it is signed
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil
	}
	return res, answer
}

// pass is no fault.
func pass(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	res, answer := p.forward(r.Context(), r, body)
	if res == nil {
		p.note(r, 0, 0)
		panic(http.ErrAbortHandler)
	}
	p.note(r, res.StatusCode, len(answer))
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(answer)
}

// dropped closes the connection at once.
func dropped(p *proxy, _ http.ResponseWriter, r *http.Request, _ []byte) {
	p.note(r, 0, 0)
	panic(http.ErrAbortHandler)
}

// hang neither sends the request on nor answers.
func hang(p *proxy, _ http.ResponseWriter, r *http.Request, _ []byte) {
	p.note(r, 0, 0)
	select {
	case <-r.Context().Done():
	case <-p.gone:
	}
	panic(http.ErrAbortHandler)
}

// loseAnswer sends the request on, and closes the connection instead of answering.
func loseAnswer(p *proxy, _ http.ResponseWriter, r *http.Request, body []byte) {
	p.forward(context.WithoutCancel(r.Context()), r, body)
	p.note(r, 0, 0)
	panic(http.ErrAbortHandler)
}

// slow answers late.
func slow(d time.Duration) fault {
	return func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		case <-p.gone:
		}
		pass(p, w, r, body)
	}
}

// unconditional sends a write on without its condition, signed anew.
func unconditional(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	r = r.Clone(r.Context())
	r.Header.Del("If-Match")
	r.Header.Del("If-None-Match")
	who, _ := credentials().Retrieve(r.Context())
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	r.ContentLength = int64(len(body))
	sign := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }
	err := v4.NewSigner(sign).SignHTTP(r.Context(), who, r, hash, "s3", "us-east-1", time.Now())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	pass(p, w, r, body)
}

// answer answers in the server's place.
func answer(status int, code string) fault {
	return func(p *proxy, w http.ResponseWriter, r *http.Request, _ []byte) {
		p.note(r, status, 0)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if code != "" {
			_, _ = io.WriteString(w, `<Error><Code>`+code+`</Code><Message>made up</Message></Error>`)
		}
	}
}

// withETag changes the ETag of answers.
func withETag(change func(etag string) string) fault {
	return func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
		res, answer := p.forward(r.Context(), r, body)
		if res == nil {
			panic(http.ErrAbortHandler)
		}
		p.note(r, res.StatusCode, len(answer))
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		if etag := res.Header.Get("ETag"); etag != "" {
			w.Header().Set("ETag", quoted(change(strings.Trim(etag, `"`))))
		}
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}
}

// heldRequest is one that was neither answered nor sent on.
type heldRequest struct {
	request *http.Request
	body    []byte
}

// hold keeps the request for deliver, and closes the connection.
func hold(p *proxy, _ http.ResponseWriter, r *http.Request, body []byte) {
	p.note(r, 0, 0)
	p.mu.Lock()
	p.held = append(p.held, &heldRequest{r.Clone(context.WithoutCancel(r.Context())), body})
	p.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// heldKeys returns which objects the held requests would write.
func (p *proxy) heldKeys() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, h := range p.held {
		keys = append(keys, strings.TrimPrefix(h.request.URL.Path, "/"+bucket+"/"))
	}
	return keys
}

// deliver sends the held requests on, in their order, and returns the answers' statuses.
func (p *proxy) deliver(ctx context.Context) []int {
	p.mu.Lock()
	held := slices.Clone(p.held)
	p.held = nil
	p.mu.Unlock()
	var statuses []int
	for _, h := range held {
		res, _ := p.forward(ctx, h.request, h.body)
		status := 0
		if res != nil {
			status = res.StatusCode
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// puts picks the writes of registers.
func puts(f fault) func(r *http.Request) fault {
	return func(r *http.Request) fault {
		if r.Method == http.MethodPut {
			return f
		}
		return nil
	}
}
