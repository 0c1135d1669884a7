package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

const (
	readers    = 16  // how many objects are read at once by one List or Refresh
	mostAtOnce = 256 // how many of a list are read before the first of them is yielded

	skimAtOnce  = 8                     // the same of a Skim, if it reads few
	skimPace    = 15 * time.Millisecond // of all Skims together, for each read
	longestPage = 4 * time.Second       // how long one Skim waits for its reads, for each page
)

// query is what a list is to show.
type query struct {
	prefix  string
	before  string        // only smaller names; all if empty
	age     time.Duration // how old a record may be if its object has the same size
	portion int           // how many objects are read at once, at the most
	pace    time.Duration // the wait for each of them before the next portion
}

// Get implements [driver.Store]. If the register still has the revision that this store knows, the answer has no body.
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	l, err := s.read(ctx, s.knownAs(driver.Record{Name: name}))
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}

	return l, nil
}

// knownAs returns what is known of a register: by the caller, or else by this store.
func (s *Store) knownAs(l driver.Record) driver.Record {
	if l.Rev != "" {
		return l
	}

	if kept := s.cache.get(l.Name); kept.Name != "" {
		return kept
	}

	return l
}

// read reads a register of which a record may be known.
func (s *Store) read(ctx context.Context, known driver.Record) (driver.Record, error) {
	inner, done, err := s.begin(ctx)
	if err != nil {
		return driver.Record{}, err
	}

	defer done()

	sent := time.Now()
	o, err := s.get(inner, s.addr.key(known.Name), known.Rev)
	switch {
	case errors.Is(err, errUnchanged):
		return known, nil
	case errors.Is(err, driver.ErrNotFound):
		s.cache.drop(known.Name)
		return driver.Record{}, err
	case err != nil:
		return driver.Record{}, s.explain(ctx, err)
	}

	l, err := decode(known.Name, o)
	if err != nil {
		return driver.Record{}, err
	}

	s.cache.put(l, len(o.body), sent)
	return l, nil
}

// The body of an object is the record's own JSON, with one more field at its beginning: the number of the write,
// without which two equal records would have one ETag.
const bodyBegin = `{"write":"`

// encode returns the body of an object for one write. A heartbeat, which changes nothing but the nonce, does not change
// its length, and one more byte of data does: Skim depends on that.
func (s *Store) encode(l driver.Record) []byte {
	b := make([]byte, 0, 512+2*len(l.Data)+160*len(l.Past))
	width := 10 + bits.LeadingZeros64(l.Nonce|1)/4 + len(l.Data)%3 // data is written as base64
	b = fmt.Appendf(b, "%s%016x-%0*d", bodyBegin, s.id, width, s.writes.Add(1))
	b = append(b, `",`...)
	at := len(b)
	b = l.AppendJSON(b)
	return append(b[:at], b[at+1:]...) // without the record's own opening brace
}

// decode reads what encode wrote, and any JSON with the same fields, as an operator may write it.
func decode(name string, o object) (driver.Record, error) {
	body := o.body
	if rest, ok := bytes.CutPrefix(body, []byte(bodyBegin)); ok {
		if _, fields, ok := bytes.Cut(rest, []byte(`",`)); ok {
			body = append([]byte("{"), fields...)
		}
	}

	l, err := driver.ParseRecord(name, o.etag, body)
	if err != nil {
		return driver.Record{}, fmt.Errorf("the object %w: %w", errUnreadable, err)
	}

	return l, nil
}

// Refresh implements [driver.Refresher]: one request for each register, 16 at once. A register that has not changed is
// answered without a body.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(known))
	s.each(len(known), func(i int) {
		l, err := s.read(ctx, s.knownAs(known[i]))
		if err != nil {
			out[i].Err = fmt.Errorf("get %q: %w", known[i].Name, err)
			return
		}

		out[i].Record = l
	})

	return out
}

// each calls f for 0 to n-1, a few at once.
func (s *Store) each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, readers) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}

	for i := range n {
		next <- i
	}

	close(next)
	wg.Wait()
}

// List implements [driver.Store]: one request for every 1,000 registers, and one for each that has changed since this
// store read it last.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return s.pages(ctx, query{prefix: prefix, portion: mostAtOnce})
}

// ListBefore implements [driver.Ranger]: an object whose name is not smaller is not read.
func (s *Store) ListBefore(ctx context.Context, prefix, before string) iter.Seq2[driver.Record, error] {
	return s.pages(ctx, query{prefix: prefix, before: before, portion: mostAtOnce})
}

// Skim implements [driver.Skimmer]: one request for every 1,000 registers, and one for each that this store has not
// read lately, or that has another size than when it was read. A heartbeat changes no size. Reads are spread over up to
// 4 seconds for each 1,000 registers: the first Skim of a leader reads all members of its fleet. Several Skims at once
// take turns, and what one has read the others need not read.
func (s *Store) Skim(ctx context.Context, prefix string, age time.Duration) iter.Seq2[driver.Record, error] {
	return s.pages(ctx, query{prefix: prefix, age: age, portion: skimAtOnce, pace: skimPace})
}

// pages yields the registers whose names begin with prefix, as they are or as they were in the last age. Objects are
// read only when their turn comes, first one and then twice as many each time: whoever ends the list early has read
// few.
func (s *Store) pages(ctx context.Context, q query) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		token := ""
		portion := 1
		for {
			entries, next, err := s.page(ctx, q.prefix, token)
			if err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", q.prefix, err))
				return
			}

			pace := min(q.pace, longestPage/time.Duration(max(1, len(entries))))
			most := max(q.portion, len(entries)/32)
			for len(entries) > 0 {
				n := min(portion, len(entries))
				if !yieldAll(s.paced(ctx, q, entries[:n], pace), q.prefix, yield) {
					return
				}

				entries = entries[n:]
				portion = min(2*portion, most)
			}

			if token = next; token == "" {
				return
			}
		}
	}
}

// paced returns the records of a part of a page. With a pace it waits for its turn, and keeps that for as long as its
// reads may take: so a leader that lists its fleet for two purposes does not double its requests.
func (s *Store) paced(ctx context.Context, q query, entries []entry, pace time.Duration) []driver.Outcome {
	if pace <= 0 {
		out, _ := s.listed(ctx, q, entries)
		return out
	}

	select {
	case s.skimming <- struct{}{}:
		defer func() { <-s.skimming }()
	case <-ctx.Done(): // the reads fail
	}

	began := time.Now()
	out, reads := s.listed(ctx, q, entries)
	if wait := pace*time.Duration(reads) - time.Since(began); wait > 0 {
		sleep(ctx, wait)
	}

	return out
}

// yieldAll yields what was listed, and reports whether the list goes on.
func yieldAll(out []driver.Outcome, prefix string, yield func(driver.Record, error) bool) bool {
	for _, o := range out {
		if errors.Is(o.Err, driver.ErrNotFound) {
			continue // removed meanwhile
		}

		if o.Err != nil && !errors.Is(o.Err, errUnreadable) {
			yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, o.Err))
			return false
		}

		if !yield(o.Record, o.Err) {
			return false
		}
	}

	return true
}

// sleep returns after a time, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// page asks for one page of a list.
func (s *Store) page(ctx context.Context, prefix, token string) ([]entry, string, error) {
	inner, done, err := s.begin(ctx)
	if err != nil {
		return nil, "", err
	}

	defer done()
	entries, next, err := s.list(inner, s.addr.keyPrefix(prefix), token)
	return entries, next, s.explain(ctx, err)
}

// listed returns the records of a part of a page, and how many of them had to be read. One that cannot be read has its
// name, and an error.
func (s *Store) listed(ctx context.Context, q query, entries []entry) (out []driver.Outcome, reads int) {
	var changed []int
	for _, e := range entries {
		name, ok := s.addr.name(e.key)
		if !ok || !strings.HasPrefix(name, q.prefix) || q.before != "" && name >= q.before {
			continue // no register of Regent's, or one that is not asked for
		}

		kept := s.cache.kept(name)
		l := kept.record
		switch {
		case e.etag == "" || l.Rev != e.etag && !kept.serves(e.size, q.age):
			l = driver.Record{Name: name}
			changed = append(changed, len(out))
		default:
			l.Rev = e.etag
		}

		out = append(out, driver.Outcome{Record: l})
	}

	s.each(len(changed), func(k int) {
		o := &out[changed[k]]
		name := o.Record.Name
		l, err := s.read(ctx, s.knownAs(driver.Record{Name: name}))
		if err != nil {
			o.Err = fmt.Errorf("get %q: %w", name, err)
			return
		}

		o.Record = l
	})

	return out, len(changed)
}
