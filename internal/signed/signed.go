// Package signed authenticates the requests that members send to members. Both know the cluster's token. The sender
// proves it by an HMAC over the request and its receiver, and never sends the token itself: the address of a request
// comes from the store, and anybody who can write the store can write any address.
//
// What a signature covers: the method, the path with its query, the digest of the body, every header whose name begins
// with Regent-, the receiver's member ID and address, a challenge of the receiver, and a number that the sender never
// uses for another request.
//
// What a receiver refuses: a signature by another token, for another receiver, with a challenge that its own process
// has not issued within [Lifetime], or seen before. Neither side reads a wall clock.
//
// A receiver sends a challenge with each answer, in the header [Header]. A sender keeps the last one of each receiver.
// If it has none, or the receiver has restarted, the request is refused with a new challenge, and is sent once more.
//
// What it does not do: it encrypts nothing, and it does not authenticate the answer. TLS does both.
package signed

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Scheme is the name of the scheme in the headers Authorization and WWW-Authenticate.
const Scheme = "Regent-HMAC-SHA256"

// Secret is a token that can be replaced while it is in use. A nil Secret and the zero value hold no token.
type Secret struct{ token atomic.Pointer[string] }

// NewSecret returns a Secret that holds a token.
func NewSecret(token string) *Secret {
	s := &Secret{}
	s.Set(token)
	return s
}

// Set replaces the token.
func (s *Secret) Set(token string) { s.token.Store(&token) }

// Token returns the token; empty if there is none.
func (s *Secret) Token() string {
	if s == nil {
		return ""
	}
	if t := s.token.Load(); t != nil {
		return *t
	}
	return ""
}

// Signer signs requests, and sends them. It is safe for concurrent use.
type Signer struct {
	secret  *Secret
	session string
	number  atomic.Uint64
	known   challenges
}

// NewSigner returns a signer with a session of its own.
func NewSigner(secret *Secret) *Signer {
	var session [16]byte
	_, _ = rand.Read(session[:]) // which never fails
	return &Signer{secret: secret, session: hex.EncodeToString(session[:])}
}

// Do signs a request with this body to the member id at addr, and sends it with send. If the receiver refuses the
// challenge and offers a new one, Do sends the request once more with that. Both attempts have the same number, so the
// receiver accepts at most one of them. Without a token, Do sends the request unsigned.
func (s *Signer) Do(
	send func(*http.Request) (*http.Response, error), r *http.Request, id, addr string, body []byte,
) (*http.Response, error) {
	token := s.secret.Token()
	if token == "" {
		return send(withBody(r, body))
	}

	receiver := receiverOf(id, addr)
	c := claims{
		to: url.QueryEscape(id), addr: url.QueryEscape(addr), challenge: s.known.of(receiver),
		session: s.session, number: s.number.Add(1), body: digest(body),
	}

	resp, err := send(sign(token, r, &c, body))
	if err != nil {
		return resp, err
	}

	next := s.known.learn(receiver, resp)
	if !stale(resp) || next == "" || next == c.challenge {
		return resp, nil
	}

	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that its connection can be used again
	_ = resp.Body.Close()
	c.challenge = next
	resp, err = send(sign(token, r, &c, body))
	if err == nil {
		s.known.learn(receiver, resp)
	}

	return resp, err
}

// sign returns a copy of the request that has the body and the header Authorization.
func sign(token string, r *http.Request, c *claims, body []byte) *http.Request {
	r = withBody(r, body)
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", c.header(c.mac(token, r.Method, r.URL.RequestURI(), r.Header)))
	return r
}

func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	return r
}

// claims are the signed fields besides the request itself.
type claims struct {
	to        string // the receiver's member ID, escaped
	addr      string // the receiver's address, escaped
	challenge string // the receiver's; empty if none is known
	session   string // of one signer: 16 random bytes, in hex
	number    uint64 // from 1 on, unique within a session
	body      string // the SHA-256 of the body, in hex
}

func (c *claims) header(mac []byte) string {
	return fmt.Sprintf("%s to=%s,addr=%s,challenge=%s,session=%s,number=%d,body=%s,mac=%x",
		Scheme, c.to, c.addr, c.challenge, c.session, c.number, c.body, mac)
}

// mac computes the signature. No signed field can contain a line break, so two different requests never have the same
// text.
func (c *claims) mac(token, method, uri string, headers http.Header) []byte {
	h := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(h, "%s v1\n%s\n%s\n%s\n%s\n%s\n%s\n%d\n%s\n",
		Scheme, method, uri, c.to, c.addr, c.challenge, c.session, c.number, c.body)
	var names []string
	for name := range headers {
		if strings.HasPrefix(name, "Regent-") {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(h, "%s: %q\n", name, headers[name])
	}

	return h.Sum(nil)
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// maxHeader is the length up to which the header is read: an ID of 250 bytes, each escaped, fits.
const maxHeader = 4 << 10

// parse parses what header wrote, and nothing else.
func parse(header string) (c claims, mac []byte, ok bool) {
	if len(header) > maxHeader {
		return c, nil, false
	}

	parts := strings.Split(header, ",")
	names := []string{"to", "addr", "challenge", "session", "number", "body", "mac"}
	if len(parts) != len(names) {
		return c, nil, false
	}

	for i, name := range names {
		if parts[i], ok = strings.CutPrefix(parts[i], name+"="); !ok {
			return c, nil, false
		}
	}

	number, err1 := strconv.ParseUint(parts[4], 10, 64)
	mac, err2 := hex.DecodeString(parts[6])
	if err1 != nil || err2 != nil || number == 0 || len(parts[3]) != 32 || parts[2] != "" && !wellFormed(parts[2]) {
		return c, nil, false
	}

	c = claims{to: parts[0], addr: parts[1], challenge: parts[2], session: parts[3], number: number, body: parts[5]}
	return c, mac, true
}
