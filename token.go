package regent

import (
	"errors"
	"fmt"
)

// Token identifies the term that work was sent in. It travels with the work, and a [Fence] checks
// it.
type Token struct {
	Epoch uint64 // the term's number
	Term  string // the term's incarnation, which tells two terms with one epoch apart; empty if it is not known

	key uint64 // stands for both, within this process; 0 if it was not computed
}

// NewToken returns a token that a fence compares fastest: as one number.
func NewToken(epoch uint64, term string) Token {
	t := Token{Epoch: epoch, Term: term}
	t.key = t.fingerprint()
	return t
}

// fingerprint is FNV-1a over the term and the epoch, and never 0. Two different tokens share
// one by chance with probability 2^-64. A hostile sender can construct one, as it can send a higher epoch.
func (t Token) fingerprint() uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(t.Term) {
		h = (h ^ uint64(t.Term[i])) * prime
	}
	for e := t.Epoch; e > 0; e >>= 8 {
		h = (h ^ e&0xff) * prime
	}
	return max(h, 1)
}

// same reports whether both are of one term.
func (t Token) same(o Token) bool { return t.Epoch == o.Epoch && t.Term == o.Term }

// ErrInvalidToken reports that a token cannot be that of any term: its epoch is 0, or so large that no
// counting of terms can reach it, or its term is not a word.
var ErrInvalidToken = errors.New("invalid fencing token")

// maxTerm is the length up to which the name of a term is accepted.
const maxTerm = 128

// Validate returns nil for a token that a term can have, and otherwise an [ErrInvalidToken] that names what is wrong.
func (t Token) Validate() error {
	if t.Epoch == 0 {
		return fmt.Errorf("%w: epoch 0: every term has an epoch from 1 on", ErrInvalidToken)
	}
	if t.Epoch >= maxEpoch {
		return fmt.Errorf("%w: epoch %d: no counting of terms can reach %d", ErrInvalidToken, t.Epoch, uint64(maxEpoch))
	}

	if len(t.Term) > maxTerm {
		return fmt.Errorf("%w: term %.40q…: longer than %d bytes", ErrInvalidToken, t.Term, maxTerm)
	}
	for i := range len(t.Term) {
		if t.Term[i] <= ' ' || t.Term[i] > '~' {
			return fmt.Errorf("%w: term %.40q: must be visible ASCII without spaces", ErrInvalidToken, t.Term)
		}
	}

	return nil
}

// String returns the token as error messages and logs show it.
func (t Token) String() string {
	if t.Term == "" {
		return fmt.Sprintf("epoch %d of an unnamed term", t.Epoch)
	}
	return fmt.Sprintf("epoch %d of term %s", t.Epoch, t.Term)
}

// standing is how a token compares with the highest one that a fence has seen.
type standing int

const (
	tokenStale   standing = iota // an older epoch, or the same one of another term
	tokenCurrent                 // the very same term
	tokenNewer                   // a higher epoch, or the first term that is named for the same one
)

// against compares the token with the highest one.
func (t Token) against(highest Token) standing {
	switch {
	case t.Epoch < highest.Epoch:
		return tokenStale
	case t.Epoch > highest.Epoch:
		return tokenNewer
	case t.Term == highest.Term:
		return tokenCurrent
	case highest.Term == "":
		return tokenNewer
	default: // another term with the same epoch, or one that does not say which
		return tokenStale
	}
}
