package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	bodyMax      = 64 << 10
	redirectsMax = 10
)

// web is a check of kind http.
type web struct {
	url            *url.URL
	method         string
	body           string
	header         http.Header
	statuses       ranges
	contains       string
	redirects      bool
	skipTLSVerify  bool
	expectedStatus string // as in the definition
}

func readHTTP(r *reader) probe {
	w := &web{header: http.Header{"User-Agent": {"regent"}}}
	var err error
	if w.url, err = url.Parse(r.target); err != nil || !webURL(w.url) {
		r.refuseTarget("must be a URL that begins with http:// or https:// and names a host")
	}

	w.method = r.word("method", http.MethodGet, http.MethodHead, http.MethodPost)
	if w.body = r.text("body", ""); w.body != "" && w.method != http.MethodPost {
		r.refuseOption("body", "needs the method POST")
	}

	w.expectedStatus = r.text("status", "200-399")
	if w.statuses, err = parseRanges(w.expectedStatus, 100, 599); err != nil {
		r.refuseOption("status", "must be statuses from 100 to 599, such as 200 or 200-299,301")
	}
	if w.contains = r.text("contains", ""); w.contains != "" && w.method == http.MethodHead {
		r.refuseOption("contains", "cannot be found in an answer to HEAD, which has no body")
	}

	w.redirects = r.boolean("redirects", true)
	w.skipTLSVerify = r.boolean("insecureTLS", false)
	r.each("header.", func(name, value string) {
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			r.refuseOption("header."+name, "must be the name of a header after the dot")
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			r.refuseOption("header."+name, "must be without control characters")
		}

		w.header.Set(name, value)
	})

	return w.run
}

// webURL reports whether a URL is one of a web server.
func webURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && portFits(u.Port())
}

func (w *web) run(ctx context.Context) (Outcome, error) {
	o := Outcome{Detail: map[string]string{}}
	var address atomic.Value // a goroutine of the transport may set it after the request
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { address.Store(info.Conn.RemoteAddr().String()) },
	})
	request, err := http.NewRequestWithContext(traced, w.method, w.url.String(), strings.NewReader(w.body))
	if err != nil {
		return o, errors.New("the request cannot be made") // err would show the URL
	}

	request.Header = w.header.Clone()
	request.Host = w.header.Get("Host")
	client, done := w.client()
	defer done()

	response, err := client.Do(request)
	if a, ok := address.Load().(string); ok {
		o.Detail["address"] = a
	}

	if err != nil {
		return o.because(ctx, err)
	}
	defer response.Body.Close()

	w.evaluate(ctx, response, &o)
	return o, nil
}

// client returns a client for one check, and a function that ends it. The client opens a new connection: one that was
// kept open would hide that no other can be opened. It uses no proxy, whatever the environment says.
func (w *web) client() (*http.Client, func()) {
	transport := &http.Transport{
		DialContext:            (&net.Dialer{}).DialContext,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: w.skipTLSVerify},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: bodyMax,
	}

	return &http.Client{Transport: transport, CheckRedirect: w.follow}, transport.CloseIdleConnections
}

// follow decides about a redirect. Headers for one host are not sent to another: they may be secrets.
func (w *web) follow(next *http.Request, via []*http.Request) error {
	switch {
	case !w.redirects:
		return http.ErrUseLastResponse
	case len(via) > redirectsMax:
		return fmt.Errorf("more than %d redirects", redirectsMax)
	case next.URL.Host != w.url.Host || next.URL.Scheme != w.url.Scheme && w.url.Scheme == "https":
		for name := range w.header {
			if name != "User-Agent" {
				next.Header.Del(name)
			}
		}

		next.Header.Del("Referer") // it would show the query
	}

	return nil
}

// evaluate compares an answer to what was expected.
func (w *web) evaluate(ctx context.Context, response *http.Response, o *Outcome) {
	o.Detail["status"] = strconv.Itoa(response.StatusCode)
	if t := response.TLS; t != nil && len(t.PeerCertificates) > 0 {
		o.Detail["certificateExpires"] = t.PeerCertificates[0].NotAfter.UTC().Format(time.RFC3339)
	}

	if !w.statuses.contain(response.StatusCode) {
		o.Message = fmt.Sprintf("status %s, expected %s", response.Status, w.expectedStatus)
		return
	}

	o.Message = "status " + response.Status
	if w.contains == "" {
		o.OK = true
		return
	}

	body, err := io.ReadAll(io.LimitReader(response.Body, bodyMax))
	o.OK = strings.Contains(string(body), w.contains)
	switch {
	case o.OK:
	case err != nil:
		o.Message = "the body ended early: " + why(ctx, err)
	case len(body) == bodyMax:
		o.Message = fmt.Sprintf("%.100q is not in the first %d KiB of the body", w.contains, bodyMax>>10)
	default:
		o.Message = fmt.Sprintf("%.100q is not in the body", w.contains)
	}
}

// because returns the outcome of a check that failed with err.
func (o Outcome) because(ctx context.Context, err error) (Outcome, error) {
	o.Message = why(ctx, err)
	return o, nil
}

// why returns an error as a short text, without the URL.
func why(ctx context.Context, err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || ctx.Err() != nil {
		return "no answer in time"
	}

	var u *url.Error // it shows the URL, with its query
	if errors.As(err, &u) {
		err = u.Err
	}

	return err.Error()
}

// notToken reports whether a character cannot be in the name of a header.
func notToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// ranges is a list of ranges of numbers, from and to.
type ranges [][2]int

func (r ranges) contain(n int) bool {
	for _, part := range r {
		if part[0] <= n && n <= part[1] {
			return true
		}
	}

	return false
}

// parseRanges parses ranges such as "200-299,301".
func parseRanges(s string, least, most int) (ranges, error) {
	var all ranges
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(strings.TrimSpace(part), "-")
		if !ok {
			to = from
		}

		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || a < least || b > most || a > b {
			return nil, strconv.ErrRange
		}

		all = append(all, [2]int{a, b})
	}

	return all, nil
}

// portFits reports whether the port of a URL is empty or a number from 1 to 65535.
func portFits(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}
