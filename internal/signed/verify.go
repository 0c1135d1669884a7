package signed

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNone is returned for a request without a signature.
	ErrNone = errors.New("the request is not signed with the cluster's token (" + Scheme + ")")
	// ErrBearer is returned for a request of a member that carries the token itself.
	ErrBearer = errors.New("the request carries a bearer token, and between members it must be signed with the token " +
		"instead (" + Scheme + "): its sender is an older version of Regent, upgrade it")
	// ErrStale is returned for a request whose challenge is not accepted, or no longer. The request was not processed.
	ErrStale = fmt.Errorf("the request was not signed with a challenge that this process has issued within the last "+
		"%v: its "+
		"sender must sign the one in the header %s of this answer", Lifetime, Header)
	// ErrOld is returned if the receiver of a signed request does not support signatures.
	ErrOld = errors.New("it asks for the cluster's token itself, which members do not send to each other any more: " +
		"it is an older version of Regent, upgrade it")
)

// Verifier checks signatures, and remembers them as long as they could be replayed. It is safe for concurrent use.
type Verifier struct {
	secret *Secret
	id     string
	addr   string
	issuer *issuer

	mu   sync.Mutex
	seen map[string]*numbers // by session
}

// NewVerifier returns the verifier of the member id at addr. An empty id or addr is not compared: then a request that
// was signed for another member is accepted.
func NewVerifier(secret *Secret, id, addr string) *Verifier {
	return &Verifier{secret: secret, id: id, addr: addr, issuer: newIssuer(), seen: map[string]*numbers{}}
}

// Offer puts a new challenge into the header of an answer, if there is a token.
func (v *Verifier) Offer(answer http.Header) {
	if v.secret.Token() != "" {
		answer.Set(Header, v.issuer.challenge())
	}
}

// Present reports whether a request claims to be signed.
func Present(r *http.Request) bool {
	_, ok := credentials(r)
	return ok
}

// credentials returns the part of the header Authorization after the scheme.
func credentials(r *http.Request) (string, bool) {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return "", false
	}
	scheme, rest, _ := strings.Cut(given[0], " ")
	return rest, strings.EqualFold(scheme, Scheme)
}

// Bearer returns the token of a request with the scheme Bearer. The name of a scheme is not case-sensitive (RFC 9110).
func Bearer(r *http.Request) (token string, ok bool) {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return "", false
	}
	scheme, rest, found := strings.Cut(given[0], " ")
	return strings.TrimLeft(rest, " "), found && strings.EqualFold(scheme, "Bearer")
}

// Verify returns nil if the signature of a request is valid. It reads the body, of at most limit bytes, and replaces it
// by a copy. A sender without the token is refused before the body is read, and learns nothing else.
func (v *Verifier) Verify(r *http.Request, limit int64) error {
	header, ok := credentials(r)
	if !ok {
		if _, bearer := Bearer(r); bearer {
			return ErrBearer
		}
		return ErrNone
	}

	c, mac, ok := parse(header)
	if !ok {
		return errors.New("the signature in the header Authorization cannot be read")
	}

	token := v.secret.Token()
	if token == "" || !hmac.Equal(mac, c.mac(token, r.Method, r.RequestURI, r.Header)) {
		return errors.New("the signature does not match: the sender has another token, or the request was changed " +
			"on its way")
	}

	if err := v.checkReceiver(&c); err != nil {
		return err
	}

	if !v.issuer.accepts(c.challenge) {
		// The sender knows the token and tries again. It can use this connection if nothing is left unread.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, limit))
		return ErrStale
	}

	if err := v.checkReplay(&c); err != nil {
		return err
	}
	return v.checkBody(r, &c, limit)
}

// checkReceiver compares the receiver.
func (v *Verifier) checkReceiver(c *claims) error {
	if v.id != "" && c.to != url.QueryEscape(v.id) {
		return fmt.Errorf("the request was signed for member %s, and this is %s", unescape(c.to), v.id)
	}
	if v.addr != "" && c.addr != url.QueryEscape(v.addr) {
		return fmt.Errorf("the request was signed for the address %s, and this node's is %s", unescape(c.addr), v.addr)
	}
	return nil
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// checkReplay refuses a number that was used before.
func (v *Verifier) checkReplay(c *claims) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	n := v.seen[c.session]
	if n == nil {
		if len(v.seen) >= maxSessions {
			v.forgetLocked()
		}
		if len(v.seen) >= maxSessions {
			return fmt.Errorf("more than %d senders have signed requests within %v: no further sender is accepted",
				maxSessions, Lifetime)
		}
		n = &numbers{}
		v.seen[c.session] = n
	}

	if !n.take(c.number) {
		return errors.New("the request was received before, or overtaken by too many of its sender's: it is not " +
			"accepted twice")
	}

	n.last = time.Now()
	return nil
}

// maxSessions bounds the memory: each session takes about 300 bytes. Only a sender with the token can start one.
const maxSessions = 4096

// forgetLocked forgets sessions whose last request can no longer be replayed: its challenge is older than the request.
func (v *Verifier) forgetLocked() {
	for session, n := range v.seen {
		if time.Since(n.last) > Lifetime {
			delete(v.seen, session)
		}
	}
}

// checkBody compares the digest of the body.
func (v *Verifier) checkBody(r *http.Request, c *claims, limit int64) error {
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(nil, r.Body, limit)); err != nil {
		return err
	}

	if !hmac.Equal([]byte(digest(b.Bytes())), []byte(c.body)) {
		return errors.New("the body is not the one that was signed")
	}

	r.Body = io.NopCloser(bytes.NewReader(b.Bytes()))
	r.ContentLength = int64(b.Len())
	return nil
}

// numbers are the numbers of one session that were used: the highest, and which of those shortly before it.
type numbers struct {
	highest uint64
	bits    [replayWindow / 64]uint64 // by the number modulo replayWindow
	last    time.Time
}

// replayWindow is how many later requests may overtake one.
const replayWindow = 1024

// take reports whether a number is new.
func (n *numbers) take(number uint64) bool {
	switch {
	case number > n.highest && number-n.highest >= replayWindow:
		n.bits = [replayWindow / 64]uint64{}
		n.highest = number
	case number > n.highest:
		for n.highest < number {
			n.highest++
			n.bits[n.highest%replayWindow/64] &^= 1 << (n.highest % 64)
		}
	case n.highest-number >= replayWindow:
		return false
	}

	word, bit := &n.bits[number%replayWindow/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return false
	}

	*word |= bit
	return true
}

// Refused returns ErrOld if an answer demands a bearer token instead of a signature; otherwise nil.
func Refused(resp *http.Response) error {
	if resp.StatusCode != http.StatusUnauthorized {
		return nil
	}

	bearer := false
	for _, asked := range resp.Header.Values("WWW-Authenticate") {
		if strings.Contains(asked, Scheme) {
			return nil
		}
		bearer = bearer || strings.HasPrefix(strings.ToLower(asked), "bearer")
	}

	if bearer {
		return ErrOld
	}
	return nil
}
