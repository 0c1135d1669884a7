// Package signed authenticates the requests that members send to members. Both know the cluster's token. The sender proves
// that it does, by an HMAC over what it asks for and whom it asks, and never sends the token itself: the address that a
// request goes to comes from the store, and whoever can write the store can name any address.
//
// What a signature covers: the method, the path with its query, the digest of the body, every header whose name begins with
// Regent-, the receiver's member ID and address, the time, and a number that the sender never uses twice.
//
// What a receiver refuses: a signature by another token, for another receiver, older or newer than [Window] by its own
// clock, from before its own process was started, or seen before.
//
// What it does not do: it hides nothing, and it does not prove who answers. TLS does both.
package signed

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Scheme is the name of the scheme in the headers Authorization and WWW-Authenticate.
const Scheme = "Regent-HMAC-SHA256"

// Window is how far apart the clocks of sender and receiver may be, the time under way included.
const Window = time.Minute

// Secret is a token that can be replaced while it is in use. A nil Secret, and the zero value, hold none.
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

// Signer signs requests. It is safe for concurrent use.
type Signer struct {
	secret  *Secret
	session string
	number  atomic.Uint64
}

// NewSigner returns a signer whose numbers are its own.
func NewSigner(secret *Secret) *Signer {
	var session [16]byte
	_, _ = rand.Read(session[:]) // which never fails
	return &Signer{secret: secret, session: hex.EncodeToString(session[:])}
}

// Sign sets the header Authorization of a request with this body to the member called id at addr. Its method, URL and
// Regent- headers must not change after. Without a token it does nothing.
func (s *Signer) Sign(r *http.Request, id, addr string, body []byte) {
	token := s.secret.Token()
	if token == "" {
		return
	}
	c := claims{
		to: url.QueryEscape(id), addr: url.QueryEscape(addr), time: time.Now().UnixMilli(),
		session: s.session, number: s.number.Add(1), body: digest(body),
	}
	r.Header.Set("Authorization", c.header(c.mac(token, r.Method, r.URL.RequestURI(), r.Header)))
}

// claims are what a signature is about, besides the request itself.
type claims struct {
	to      string // the receiver's member ID, escaped
	addr    string // the address at which it was asked, escaped
	time    int64  // in milliseconds since 1970, by the sender's clock
	session string // of one signer: 16 random bytes, in hex
	number  uint64 // from 1 on, each once in a session
	body    string // the SHA-256 of the body, in hex
}

func (c *claims) header(mac []byte) string {
	return fmt.Sprintf("%s to=%s,addr=%s,time=%d,session=%s,number=%d,body=%s,mac=%x",
		Scheme, c.to, c.addr, c.time, c.session, c.number, c.body, mac)
}

// mac computes the signature. No part of what it covers can hold a line break, so that two requests never look the same.
func (c *claims) mac(token, method, uri string, headers http.Header) []byte {
	h := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(h, "%s v1\n%s\n%s\n%s\n%s\n%d\n%s\n%d\n%s\n", Scheme, method, uri, c.to, c.addr, c.time, c.session, c.number, c.body)
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

// parse reads what header wrote, and nothing else.
func parse(header string) (c claims, mac []byte, ok bool) {
	if len(header) > maxHeader {
		return c, nil, false
	}
	parts := strings.Split(header, ",")
	names := []string{"to", "addr", "time", "session", "number", "body", "mac"}
	if len(parts) != len(names) {
		return c, nil, false
	}
	for i, name := range names {
		if parts[i], ok = strings.CutPrefix(parts[i], name+"="); !ok {
			return c, nil, false
		}
	}
	sent, err1 := strconv.ParseInt(parts[2], 10, 64)
	number, err2 := strconv.ParseUint(parts[4], 10, 64)
	mac, err3 := hex.DecodeString(parts[6])
	if err1 != nil || err2 != nil || err3 != nil || number == 0 || len(parts[3]) != 32 {
		return c, nil, false
	}
	c = claims{to: parts[0], addr: parts[1], time: sent, session: parts[3], number: number, body: parts[5]}
	return c, mac, true
}
