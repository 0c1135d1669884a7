package signed

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Header is the header in which each answer of a receiver carries a challenge for the next request.
const Header = "Regent-Challenge"

// Lifetime is how long a challenge is accepted, by the receiver's monotonic clock.
const Lifetime = 2 * time.Minute

// demandFresh is the value of the header WWW-Authenticate if only the challenge is wrong.
const demandFresh = Scheme + " stale=true"

// issuer creates challenges, and recognises its own without storing them: each holds the time since the issuer was
// created, and an HMAC of that with a random key. Challenges of an earlier process, and of other nodes, are never
// accepted.
type issuer struct {
	made time.Time
	key  [32]byte
}

func newIssuer() *issuer {
	i := &issuer{made: time.Now()}
	_, _ = rand.Read(i.key[:]) // which never fails
	return i
}

const (
	agePart = 8  // bytes of a challenge that hold the time
	macPart = 16 // bytes of a challenge that authenticate it
)

// challenge returns a new challenge.
func (i *issuer) challenge() string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, agePart+macPart), uint64(time.Since(i.made)))
	return base64.RawURLEncoding.EncodeToString(append(raw, i.mac(raw)...))
}

func (i *issuer) mac(raw []byte) []byte {
	h := hmac.New(sha256.New, i.key[:])
	h.Write(raw)
	return h.Sum(nil)[:macPart]
}

// accepts reports whether a challenge was created by this issuer within Lifetime.
func (i *issuer) accepts(challenge string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(challenge)
	if err != nil || len(raw) != agePart+macPart || !hmac.Equal(raw[agePart:], i.mac(raw[:agePart])) {
		return false
	}
	made := time.Duration(binary.BigEndian.Uint64(raw))
	return time.Since(i.made)-made <= Lifetime
}

// Demand returns the value of the header WWW-Authenticate for an error of Verify.
func Demand(err error) string {
	if errors.Is(err, ErrStale) {
		return demandFresh
	}
	return Scheme
}

// stale reports whether an answer refuses only the challenge.
func stale(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized &&
		slices.Contains(resp.Header.Values("WWW-Authenticate"), demandFresh)
}

// wellFormed reports whether a text may be a challenge. A sender puts it from an answer into its next request.
func wellFormed(challenge string) bool {
	const max = 128
	return challenge != "" && len(challenge) <= max && !strings.ContainsFunc(challenge, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
}

// challenges are the last challenges of each receiver. The zero value is empty. It is safe for concurrent use.
type challenges struct {
	mu   sync.Mutex
	last map[receiver]string
}

// receiver is a digest of a member's ID and address: both come from the store, and may be of any length.
type receiver [sha256.Size]byte

func receiverOf(id, addr string) receiver { return sha256.Sum256([]byte(id + "\x00" + addr)) }

// maxReceivers bounds the memory of a sender. A forgotten challenge costs one more request.
const maxReceivers = 4096

// of returns the last challenge of a receiver; empty if none is known.
func (c *challenges) of(r receiver) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[r]
}

// learn removes the challenge from an answer, so that nobody forwards it, and returns it; empty if there is none.
func (c *challenges) learn(r receiver, resp *http.Response) string {
	given := resp.Header.Values(Header)
	resp.Header.Del(Header)
	if len(given) != 1 || !wellFormed(given[0]) {
		return ""
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if _, known := c.last[r]; !known && len(c.last) >= maxReceivers {
		for some := range c.last {
			delete(c.last, some)
			break
		}
	}

	if c.last == nil {
		c.last = map[receiver]string{}
	}

	c.last[r] = given[0]
	return given[0]
}
