package signed

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/virtual"
)

// verify has a verifier check a message, without a network: for tests in virtual time.
func (m message) verify(v *Verifier) error {
	r := httptest.NewRequest(m.method, m.path, strings.NewReader(m.body))
	r.Header = m.header.Clone()
	return v.Verify(r, 1<<10)
}

func TestChallenge(t *testing.T) {
	verifier := func() *Verifier { return NewVerifier(NewSecret(token), member, addr) }

	t.Run("it_is_accepted_for_its_lifetime_and_no_longer", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			v := verifier()
			time.Sleep(time.Hour)
			challenge := v.issuer.challenge()
			for number, age := range []time.Duration{0, time.Second, Lifetime - time.Second - 1, 1} {
				time.Sleep(age)
				if err := signedWith(t, challenge, uint64(number)+1).verify(v); err != nil {
					t.Errorf("%v later: %v", age, err)
				}
			}

			time.Sleep(time.Nanosecond)
			if err := signedWith(t, challenge, 9).verify(v); !errors.Is(err, ErrStale) {
				t.Errorf("after its lifetime: %v", err)
			}

			if err := signedFor(t, v, 10).verify(v); err != nil {
				t.Errorf("a new one: %v", err)
			}
		})
	})

	t.Run("what_was_received_is_remembered_until_its_challenge_has_expired", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			v := verifier()
			m := signedFor(t, v, 1)
			if err := m.verify(v); err != nil {
				t.Fatal(err)
			}

			time.Sleep(Lifetime)
			v.forgetLocked()
			if err := m.verify(v); err == nil || !strings.Contains(err.Error(), "not accepted twice") {
				t.Errorf("while the challenge is accepted: %v", err)
			}

			time.Sleep(time.Nanosecond)
			v.forgetLocked()
			if err := m.verify(v); !errors.Is(err, ErrStale) || len(v.seen) != 0 {
				t.Errorf("after it: %v, with %d senders in memory", err, len(v.seen))
			}
		})
	})

	t.Run("one_of_an_earlier_process_or_another_node_is_refused", func(t *testing.T) {
		v, before := verifier(), verifier()
		for _, other := range []*Verifier{before, NewVerifier(NewSecret(token), "node-b", "10.0.0.1:7468")} {
			if err := signedFor(t, other, 1).verify(v); !errors.Is(err, ErrStale) {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("one_that_nobody_has_issued_is_refused", func(t *testing.T) {
		v := verifier()
		raw, _ := base64.RawURLEncoding.DecodeString(v.issuer.challenge())
		later := binary.BigEndian.AppendUint64(nil, uint64(time.Hour))
		for fact, challenge := range map[string]string{
			"none": "", "a_word": "x", "no_mac": base64.RawURLEncoding.EncodeToString(raw[:agePart]),
			"half_a_mac": base64.RawURLEncoding.EncodeToString(raw[:agePart+macPart/2]),
			"a_longer":   base64.RawURLEncoding.EncodeToString(append(raw[:len(raw):len(raw)], 0)),
			"a_later":    base64.RawURLEncoding.EncodeToString(append(later, raw[agePart:]...)),
		} {
			if err := signedWith(t, challenge, 1).verify(v); !errors.Is(err, ErrStale) {
				t.Errorf("%s: %v", fact, err)
			}
		}
	})

	t.Run("the_body_is_read_so_that_the_connection_can_be_used_again_but_not_beyond_its_limit", func(t *testing.T) {
		m := signedWith(t, "", 1)
		for limit, left := range map[int64]int{1 << 10: 0, 4: len(m.body) - 4} {
			body := strings.NewReader(m.body)
			r := httptest.NewRequest(m.method, m.path, body)
			r.Header = m.header.Clone()
			if err := verifier().Verify(r, limit); !errors.Is(err, ErrStale) || body.Len() != left {
				t.Errorf("limit %d: %v, %d bytes left", limit, err, body.Len())
			}
		}
	})

	t.Run("who_does_not_know_the_token_is_not_told_that_it_is_old", func(t *testing.T) {
		v := NewVerifier(NewSecret("another token of this length"), member, addr)
		if err := signedWith(t, "", 1).verify(v); err == nil || Demand(err) != Scheme {
			t.Errorf("got %v", err)
		}
	})

	t.Run("none_is_offered_without_a_token", func(t *testing.T) {
		for given, want := range map[string]int{"": 0, token: 1} {
			answer := http.Header{}
			NewVerifier(NewSecret(given), member, addr).Offer(answer)
			if len(answer.Values(Header)) != want {
				t.Errorf("with token %q: %v", given, answer)
			}
		}
	})
}

// TestClocks signs where the wall clock shows the year 2000, and verifies where it shows the present.
func TestClocks(t *testing.T) {
	v := NewVerifier(NewSecret(token), member, addr)
	challenge := v.issuer.challenge()
	var m message
	virtual.Test(t, func(t *testing.T) {
		if year := time.Now().UTC().Year(); year != 2000 {
			t.Fatalf("the bubble is in %d", year)
		}
		m = signedWith(t, challenge, 1)
	})

	if err := m.verify(v); err != nil {
		t.Errorf("a sender whose clock is decades behind is refused: %v", err)
	}
}
