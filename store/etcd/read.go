package etcd

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// listPage is how many registers one request of List reads.
	listPage = 500
	// refreshPage is how many registers one request of Refresh compares: with three conditions for each, just below the
	// 128 of a transaction (--max-txn-ops).
	refreshPage = 42
)

// Get implements [driver.Store]. The read is linearizable: the member that is asked first learns from the cluster's
// leader how far it must have read.
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	var found []*mvccpb.KeyValue
	err := s.read(ctx, "get", func(ctx context.Context, kv clientv3.KV) error {
		r, err := kv.Get(ctx, s.key(name))
		if err == nil {
			found = r.Kvs
		}
		return err
	})
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}

	l, err := s.only(name, found)
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	return l, nil
}

// only returns the register that the answer to a read of one key shows.
func (s *Store) only(name string, found []*mvccpb.KeyValue) (driver.Record, error) {
	if len(found) == 0 {
		return driver.Record{}, driver.ErrNotFound
	}

	l, err := decode(name, found[0])
	if err != nil {
		return driver.Record{}, fmt.Errorf("%s: key %s: %w", s, s.key(name), err)
	}
	return l, nil
}

// List implements [driver.Store] with one request for every 500 registers.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	end := clientv3.GetPrefixRangeEnd(s.key(prefix))
	return driver.ListPages(prefix, listPage, func(after string) (page []driver.Outcome, err error) {
		from := s.key(prefix)
		if after != "" || prefix == "" {
			from = s.key(after) + "\x00"
		}

		err = s.read(ctx, "list", func(ctx context.Context, kv clientv3.KV) error {
			r, err := kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(listPage))
			if err != nil {
				return err
			}
			page = s.page(r.Kvs)
			return nil
		})
		return page, err
	})
}

// page returns the registers that an answer shows.
func (s *Store) page(found []*mvccpb.KeyValue) []driver.Outcome {
	page := make([]driver.Outcome, len(found))
	for i, kv := range found {
		name := strings.TrimPrefix(string(kv.Key), s.addr.prefix)
		l, err := s.only(name, found[i:])
		if err != nil {
			l = driver.Record{Name: name}
		}
		page[i] = driver.Outcome{Record: l, Err: err}
	}
	return page
}

// Refresh implements [driver.Refresher] with one request for every 42 registers: if none of them has changed, nothing
// is transferred. The transaction has no write in it, so it costs the cluster no entry in its log.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	return driver.RefreshPages(known, refreshPage, func(page []driver.Record) (map[string]driver.Outcome, error) {
		var same []clientv3.Cmp
		var reads []clientv3.Op
		for _, l := range page {
			key := s.key(l.Name)
			same = append(same, revised(key, l.Rev)...) // never holds for a register that was never written
			reads = append(reads, clientv3.OpGet(key))
		}

		var answer *clientv3.TxnResponse
		err := s.read(ctx, "refresh", func(ctx context.Context, kv clientv3.KV) (err error) {
			answer, err = kv.Txn(ctx).If(same...).Else(reads...).Commit()
			return err
		})
		if err != nil || answer.Succeeded {
			return nil, err
		}
		return s.moved(page, answer), nil
	})
}

// moved returns, by name, the registers of an answer that do not have the revision of the known record.
func (s *Store) moved(known []driver.Record, answer *clientv3.TxnResponse) map[string]driver.Outcome {
	moved := map[string]driver.Outcome{}
	for i, l := range known {
		now, err := s.only(l.Name, answer.Responses[i].GetResponseRange().Kvs)
		switch {
		case err != nil:
			moved[l.Name] = driver.Outcome{Err: fmt.Errorf("refresh %q: %w", l.Name, err)}
		case now.Rev != l.Rev:
			moved[l.Name] = driver.Outcome{Record: now}
		}
	}
	return moved
}
