package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/regentd/regent/driver"
)

// readers is how many objects are read at once by one List or Refresh.
const readers = 16

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

	s.cache.put(l)
	return l, nil
}

// The body of an object is the record's own JSON, with one more field at its beginning: the number of the write,
// without which two equal records would have one ETag.
const bodyBegin = `{"write":"`

// encode returns the body of an object for one write.
func (s *Store) encode(l driver.Record) []byte {
	b := make([]byte, 0, 512+2*len(l.Data)+160*len(l.Past))
	b = fmt.Appendf(b, "%s%016x-%d", bodyBegin, s.id, s.writes.Add(1))
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
	return func(yield func(driver.Record, error) bool) {
		token := ""
		for {
			entries, next, err := s.page(ctx, prefix, token)
			if err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}

			for _, o := range s.listed(ctx, prefix, entries) {
				if errors.Is(o.Err, driver.ErrNotFound) {
					continue // removed meanwhile
				}

				if o.Err != nil && !errors.Is(o.Err, errUnreadable) {
					yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, o.Err))
					return
				}

				if !yield(o.Record, o.Err) {
					return
				}
			}

			if token = next; token == "" {
				return
			}
		}
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

// listed returns the records of a page. One that cannot be read has its name, and an error.
func (s *Store) listed(ctx context.Context, prefix string, entries []entry) []driver.Outcome {
	var out []driver.Outcome
	var changed []int
	for _, e := range entries {
		name, ok := s.addr.name(e.key)
		if !ok || !strings.HasPrefix(name, prefix) {
			continue // no register of Regent's
		}

		l := s.cache.get(name)
		if l.Rev != e.etag || e.etag == "" {
			l = driver.Record{Name: name}
			changed = append(changed, len(out))
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

	return out
}
