package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// swapPage is how many registers one transaction swaps. A transaction may have 128 operations (--max-txn-ops), of
	// which each swap inside of it takes three, one swap at a time.
	swapPage = 100
	// swapBytes bounds the records of one transaction: etcd takes requests of up to 1.5 MiB (--max-request-bytes).
	swapBytes = 1 << 20
)

// change is a swap that is about to be sent.
type change struct {
	record driver.Record
	stamp  string
	value  string
	key    string
}

func (s *Store) newChange(l driver.Record) change {
	stamp := s.newStamp(l)
	return change{record: l, stamp: stamp, value: encode(stamp, l), key: s.key(l.Name)}
}

func (c change) conditions() []clientv3.Cmp { return unchanged(c.key, c.record.Rev) }

func (c change) put() clientv3.Op { return clientv3.OpPut(c.key, c.value) }

// outcome returns what has become of a change whose transaction was answered: mod is the revision of that transaction.
func (c change) outcome(applied bool, mod int64) driver.Outcome {
	if !applied {
		return driver.Outcome{Err: fmt.Errorf("swap %q at revision %q: %w", c.record.Name, c.record.Rev,
			driver.ErrConflict)}
	}
	l := c.record
	l.Rev = revision(mod, c.stamp)
	return driver.Outcome{Record: l}
}

// unknown returns the outcome of a change whose transaction has failed.
func (c change) unknown(err error) driver.Outcome {
	return driver.Outcome{Err: fmt.Errorf("swap %q: %w", c.record.Name, err)}
}

// Swap implements [driver.Store] with one transaction.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	c := s.newChange(l)
	var answer *clientv3.TxnResponse
	err := s.write(ctx, "swap", func(ctx context.Context, kv clientv3.KV) (err error) {
		answer, err = kv.Txn(ctx).If(c.conditions()...).Then(c.put()).Commit()
		return err
	})

	o := c.unknown(err)
	if err == nil {
		o = c.outcome(answer.Succeeded, answer.Header.Revision)
	}
	return o.Record, o.Err
}

// SwapAll implements [driver.Batcher] with one transaction for every 100 registers. Each swap is a transaction of its
// own inside of it, so that a conflict concerns that swap alone.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(ls))
	rest := make([]int, len(ls))
	for i := range rest {
		rest[i] = i
	}

	for len(rest) > 0 {
		var page []int
		var changes []change
		page, changes, rest = s.nextPage(ls, rest)
		for i, o := range s.swapPage(ctx, changes) {
			out[page[i]] = o
		}
	}
	return out
}

// nextPage takes a page of changes from the records of the given indexes, and returns the indexes that are left. etcd
// refuses a transaction that writes a key twice, so the second swap of a register is left for the next page.
func (s *Store) nextPage(ls []driver.Record, from []int) (page []int, changes []change, rest []int) {
	written, size := map[string]bool{}, 0
	for _, i := range from {
		if len(page) == swapPage || size >= swapBytes || written[ls[i].Name] {
			rest = append(rest, i)
			continue
		}

		c := s.newChange(ls[i])
		written[c.record.Name] = true
		size += len(c.value) + len(c.key)
		page, changes = append(page, i), append(changes, c)
	}
	return page, changes, rest
}

// swapPage sends changes of different registers as one transaction.
func (s *Store) swapPage(ctx context.Context, changes []change) []driver.Outcome {
	ops := make([]clientv3.Op, len(changes))
	for i, c := range changes {
		ops[i] = clientv3.OpTxn(c.conditions(), []clientv3.Op{c.put()}, nil)
	}

	var answer *clientv3.TxnResponse
	err := s.write(ctx, "swap", func(ctx context.Context, kv clientv3.KV) (err error) {
		answer, err = kv.Txn(ctx).Then(ops...).Commit()
		return err
	})

	out := make([]driver.Outcome, len(changes))
	for i, c := range changes {
		if err != nil {
			out[i] = c.unknown(err)
			continue
		}
		out[i] = c.outcome(answer.Responses[i].GetResponseTxn().Succeeded, answer.Header.Revision)
	}
	return out
}

// Remove implements [driver.Remover]: a read that shows whether anybody holds the register, and a delete on the
// revision that was read. A register that is written again gets another stamp.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	refused := fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	now, err := s.Get(ctx, l.Name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return refused
	case err != nil:
		return fmt.Errorf("remove %q: %w", l.Name, err)
	case now.Rev != l.Rev || !now.Vacant():
		return refused
	}

	key := s.key(l.Name)
	var answer *clientv3.TxnResponse
	err = s.write(ctx, "remove", func(ctx context.Context, kv clientv3.KV) (err error) {
		answer, err = kv.Txn(ctx).If(unchanged(key, l.Rev)...).Then(clientv3.OpDelete(key)).Commit()
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("remove %q: %w", l.Name, err)
	case !answer.Succeeded:
		return refused
	}
	return nil
}
