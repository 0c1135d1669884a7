package etcd

import (
	"fmt"
	"strings"

	"github.com/regentd/regent"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fence returns the conditions under which the term still holds its election. Put them in front of what the leader
// writes to the same cluster:
//
//	conditions, err := etcd.Fence(term)
//	if err != nil {
//		return err // the term has ended
//	}
//	r, err := client.Txn(ctx).If(conditions...).Then(clientv3.OpPut("orders/7", "billed")).Commit()
//	if err == nil && !r.Succeeded {
//		err = regent.ErrNotLeader // another term has begun, or the election was released
//	}
//
// The registers must have the prefix [DefaultPrefix]; see [FencePrefix] for another. The error is a
// [regent.ErrNotLeader] if the term has ended.
//
// # Why it is sound
//
// etcd applies transactions one after another, and compares when it applies. A claim is a transaction that writes the
// election's key, which is the key that the conditions compare. So one of the two comes first:
//
//   - The leader's transaction comes first: it was applied before the other term began.
//   - The claim comes first: the value then begins with another epoch and another incarnation. The conditions do not
//     hold, and nothing of the transaction is applied, however long it was on its way.
//
// A release writes the same epoch without an incarnation, so the conditions do not hold after it either. Renewals and
// checkpoints of the leader itself keep both, and conflict with nothing. The incarnation tells two terms apart that
// have one epoch, as a restored snapshot can bring about. Nothing waits: unlike a lock, a leader that is frozen in the
// middle of its work does not hold up the next one.
//
// The conditions of a transaction protect that transaction alone. Ask for them again for the next one: they stay the
// same during a term, but Fence also compares the term's deadline.
func Fence(term regent.Term) ([]clientv3.Cmp, error) { return FencePrefix(term, DefaultPrefix) }

// FencePrefix is [Fence] for a store with another prefix: /app/ for an address that ends with /app.
func FencePrefix(term regent.Term, prefix string) ([]clientv3.Cmp, error) {
	token := term.Token()
	fail := func(err error) error {
		return fmt.Errorf("fence %q at epoch %d: %w", term.Election, token.Epoch, err)
	}

	switch err := token.Validate(); {
	case err != nil:
		return nil, fail(err)
	case token.Term == "":
		return nil, fail(fmt.Errorf("%w: it names no term", regent.ErrInvalidToken))
	case !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/"):
		return nil, fail(&regent.ConfigError{Key: "prefix", Value: prefix, Rule: "must begin and end with a slash"})
	case !term.Valid():
		return nil, fail(regent.ErrNotLeader)
	}
	return begins(prefix+term.Election, stampField+stampOfTerm(token.Epoch, token.Term)), nil
}
