package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/regentd/regent/driver"
)

const (
	// swapPage is how many registers one statement swaps.
	swapPage = 1000
	// swapsAtOnce bounds the single swaps of a batch that are under way at once.
	swapsAtOnce = 4
	// attempts is how often a statement is sent that the server has undone.
	attempts = 10
)

// row is a record as it stands in the table.
type row struct{ name, rev, epoch, holder, incarnation, next, record, known string }

// newRow returns the row of a record, with a new revision.
func (s *Store) newRow(l driver.Record) row {
	record := l.AppendJSON(nil)
	return row{
		name: l.Name, rev: s.newRevision(record), epoch: strconv.FormatUint(l.Epoch, 10),
		holder: visible(l.Holder.ID), incarnation: visible(l.Holder.Incarnation), next: visible(l.Next),
		record: string(record), known: l.Rev,
	}
}

// newRevision returns a revision that was never used, not even if the database was restored from a copy: the ID of this
// Store, a count, and the digest of the record. The digest makes a record in a notification trustworthy: see
// notifier.publish.
func (s *Store) newRevision(record []byte) string {
	b := strconv.AppendUint(nil, s.id, 36)
	b = append(b, '.')
	b = strconv.AppendUint(b, s.revs.Add(1), 36)
	b = append(b, '.')
	return string(b) + digest(record)
}

// digest returns 96 bits of a record's hash.
func digest(record []byte) string {
	sum := sha256.Sum256(record)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// visible returns text for a column that people read: without what PostgreSQL does not store as text. The record itself
// is JSON, which has every text.
func visible(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}

// Swap implements [driver.Store] in one statement, which commits by itself.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	r := s.newRow(l)
	var applied bool
	err := s.send(ctx, func(ctx context.Context) (err error) {
		applied, err = s.swapOne(ctx, r, l.Paused)
		return err
	})

	switch {
	case err != nil:
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err)
	case !applied:
		return driver.Record{}, conflict(l)
	}

	l.Rev = r.rev
	return l, nil
}

func conflict(l driver.Record) error {
	return fmt.Errorf("swap %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
}

// send runs a statement that writes, again if the server has undone it.
func (s *Store) send(ctx context.Context, f func(context.Context) error) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	for range attempts {
		s.sent.Add("swap")
		if err = f(ctx); !undone(err) {
			break
		}
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// swapOne reports whether a row was written.
func (s *Store) swapOne(ctx context.Context, r row, paused bool) (bool, error) {
	text, args := s.sql.create, []any{r.name, r.rev, r.epoch, r.holder, r.incarnation, r.next, paused, r.record}
	if r.known != "" {
		text, args = s.sql.swap, append(args, r.known)
	}

	var rev string
	var notified *string
	err := s.db.queryRow(ctx, text, args...)(&rev, &notified)
	if errors.Is(err, errNoRow) {
		return false, nil
	}
	return err == nil, err
}

// SwapAll implements [driver.Batcher] with one statement for every 1,000 registers. A register whose row another
// transaction has locked is swapped by itself, so that none waits for another.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(ls))
	order := make([]int, len(ls)) // by name, so that two batches create registers in the same order
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ls[a].Name, ls[b].Name) })

	for page := range slices.Chunk(order, swapPage) {
		s.swapPage(ctx, ls, page, out)
	}
	return out
}

// swapPage swaps the records of the given indexes, and sets their outcomes.
func (s *Store) swapPage(ctx context.Context, ls []driver.Record, page []int, out []driver.Outcome) {
	rows := make([]row, len(page))
	for i, at := range page {
		rows[i] = s.newRow(ls[at])
	}

	var applied, locked map[string]bool
	err := s.send(ctx, func(ctx context.Context) (err error) {
		applied, locked, err = s.swapRows(ctx, rows, ls, page)
		return err
	})

	var alone []int
	for i, at := range page {
		l := ls[at]
		switch {
		case err != nil:
			out[at].Err = fmt.Errorf("swap %q: %w", l.Name, err)
		case applied[rows[i].rev]:
			l.Rev = rows[i].rev
			out[at].Record = l
		case l.Rev == "" || locked[l.Name]:
			out[at].Err = conflict(l)
		default:
			alone = append(alone, at)
		}
	}

	var wg sync.WaitGroup
	free := make(chan struct{}, swapsAtOnce)
	for _, at := range alone {
		free <- struct{}{}
		wg.Go(func() {
			out[at].Record, out[at].Err = s.Swap(ctx, ls[at])
			<-free
		})
	}
	wg.Wait()
}

// swapRows returns the revisions of the rows that were written, and the names of those that it has locked.
func (s *Store) swapRows(
	ctx context.Context, rows []row, ls []driver.Record, page []int,
) (applied, locked map[string]bool, err error) {
	var args [9][]string
	for i, r := range rows {
		paused := strconv.FormatBool(ls[page[i]].Paused)
		for j, v := range []string{
			r.name, r.rev, r.epoch, r.holder, r.incarnation, r.next, paused, r.record, r.known,
		} {
			args[j] = append(args[j], v)
		}
	}

	all := make([]any, len(args))
	for i, a := range args {
		all[i] = array(a)
	}

	applied, locked = map[string]bool{}, map[string]bool{}
	err = s.db.query(ctx, func(scan func(...any) error) error {
		var rev, name string
		var notified *string
		if err := scan(&rev, &name, &notified); err != nil {
			return err
		}
		if rev != "" {
			applied[rev] = true
		} else {
			locked[name] = true
		}
		return nil
	}, s.sql.swapAll, all...)
	return applied, locked, err
}

// array returns strings as an array of PostgreSQL, in the text form that every driver can send.
func array(all []string) string {
	b := []byte{'{'}
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		for j := range len(v) {
			if v[j] == '"' || v[j] == '\\' {
				b = append(b, '\\')
			}
			b = append(b, v[j])
		}
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

// Remove implements [driver.Remover]. A register that is written again gets a revision that was never used: see
// newRevision.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("remove %q: %w", l.Name, err)
	}
	defer done()

	s.sent.Add("remove")
	var rev string
	err = s.db.queryRow(ctx, s.sql.erase, l.Name, l.Rev)(&rev)
	switch {
	case errors.Is(err, errNoRow):
		return fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	case err != nil:
		return fmt.Errorf("remove %q: %w", l.Name, s.explain(ctx, err))
	}
	return nil
}
