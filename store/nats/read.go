package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

const (
	// readPage is how many registers one request reads. A server answers at most 1,024.
	readPage = 250
	// readBytes is how much the answer to one request may hold. If a client may say nothing of that, a server sends as
	// much as makes it close the connection (max_pending).
	readBytes = 4 << 20
)

// errStale says that a replica has not got as far as a read must show.
var errStale = errors.New("the replica that has answered is behind")

// read returns the messages of registers, by name, as they are after everything that was answered before: see
// [Store.barrier]. Any replica may answer, as long as it has stored the barrier.
func (s *Store) read(ctx context.Context, kind string, names []string) (map[string]stored, error) {
	least, err := s.barrier(ctx)
	if err != nil {
		return nil, err
	}

	found := map[string]stored{}
	for page := range slices.Chunk(names, readPage) {
		if err := s.readPage(ctx, kind, page, least, found); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return found, s.readPage(ctx, kind, nil, least, found)
	}
	return found, nil
}

// readPage adds the messages of registers to found, with as many requests as that takes.
func (s *Store) readPage(
	ctx context.Context, kind string, names []string, least uint64, found map[string]stored,
) error {
	for stale := 0; ; {
		part := map[string]stored{}
		var pending bool
		err := repeat(ctx, func(ctx context.Context) (err error) {
			clear(part)
			pending, err = s.readOnce(ctx, kind, names, least, part)
			return err
		})
		switch {
		case errors.Is(err, errStale):
			if err := pause(ctx, stale); err != nil {
				return fmt.Errorf("%w: %w", err, errStale)
			}
			stale++
			continue
		case err != nil:
			return err
		}

		maps.Copy(found, part)
		if !pending {
			return nil
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := part[name]; return ok })
		if len(part) == 0 {
			return errors.New("the server has sent a part of its answer only")
		}
	}
}

// readOnce asks for the last messages of registers, and adds them to found. It reports whether the answer was too large
// to come as a whole.
func (s *Store) readOnce(
	ctx context.Context, kind string, names []string, least uint64, found map[string]stored,
) (pending bool, err error) {
	subjects := []string{s.addr.barrier()} // an answer without any message would not say how old it is
	for _, name := range names {
		subjects = append(subjects, s.addr.registers()+encodeName(name))
	}
	body, err := json.Marshal(map[string]any{"multi_last": subjects, "max_bytes": readBytes})
	if err != nil {
		return false, err
	}

	subject := s.addr.api("DIRECT.GET." + s.addr.stream)
	within, done, err := s.begin(ctx, subject)
	if err != nil {
		return false, err
	}
	defer done()

	inbox := s.conn.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return false, s.judge(within, time.Now(), err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails if the connection is closed

	began := time.Now()
	s.sent.Add(kind)
	if err := s.conn.PublishRequest(subject, inbox, body); err != nil {
		return false, s.judge(within, began, err)
	}
	a := answer{addr: s.addr, found: found}
	for !a.complete {
		m, err := sub.NextMsgWithContext(within)
		if err == nil {
			err = a.add(m)
		}
		if err != nil {
			return false, s.judge(within, began, err)
		}
	}
	if a.upTo < least {
		return false, errStale
	}
	return a.pending, nil
}

// answer is the messages that come for one read, one after another.
type answer struct {
	addr     *address
	found    map[string]stored
	upTo     uint64 // the last sequence number that the replica has stored
	complete bool
	pending  bool // the server has stopped before the end
}

func (a *answer) add(m *nats.Msg) error {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "204": // the end
		a.complete = true
		a.pending = number(m, "Nats-Num-Pending") > 0
		a.upTo = number(m, "Nats-UpTo-Sequence")
		return nil
	case "404": // not even the barrier is there
		a.complete = true
		return nil
	case "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("the server answers a read with %s %s: nats-server 2.11 or later is needed",
			status, m.Header.Get("Description"))
	}

	message, ok := parseStored(m)
	if !ok {
		return errors.New("the server has sent a message without its sequence number")
	}
	tokens, register := strings.CutPrefix(m.Header.Get("Nats-Subject"), a.addr.registers())
	if name, ok := decodeName(tokens); ok && register {
		a.found[name] = message
	}
	return nil
}

// number returns the number in a header, or 0.
func number(m *nats.Msg, header string) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get(header), 10, 64)
	return n
}

// outcome returns what a read has shown of a register, and notes its revision.
func (s *Store) outcome(name string, found map[string]stored) (driver.Record, error) {
	message, ok := found[name]
	if !ok || message.removed {
		s.known.remove(name)
		return driver.Record{}, driver.ErrNotFound
	}

	s.known.add(name, message.revision())
	l, err := message.decode(name)
	if err != nil {
		return driver.Record{}, fmt.Errorf("%s: message %d of subject %s: %w", s, message.sequence,
			s.addr.registers()+encodeName(name), err)
	}
	return l, nil
}

// Get implements [driver.Store] with two requests: see [Store.barrier].
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	found, err := s.read(ctx, "get", []string{name})
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, s.explain(ctx, err))
	}
	l, err := s.outcome(name, found)
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	return l, nil
}

// List implements [driver.Store] with a request for the subjects, and one for every 250 registers.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		names, err := s.names(ctx, prefix)
		if err != nil {
			yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
			return
		}

		for page := range slices.Chunk(names, readPage) {
			found, err := s.read(ctx, "list", page)
			if err != nil {
				yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, s.explain(ctx, err)))
				return
			}
			for _, name := range page {
				l, err := s.outcome(name, found)
				if errors.Is(err, driver.ErrNotFound) {
					continue // it was removed meanwhile
				}
				if err != nil {
					l = driver.Record{Name: name}
				}
				if !yield(l, err) {
					return
				}
			}
		}
	}
}

// names returns the names of the registers below a prefix, in order.
func (s *Store) names(ctx context.Context, prefix string) (names []string, err error) {
	least, err := s.barrier(ctx)
	if err != nil {
		return nil, err
	}

	var info *jetstream.StreamInfo
	for stale := 0; info == nil || info.State.LastSeq < least; stale++ {
		if info != nil {
			if err := pause(ctx, stale); err != nil {
				return nil, fmt.Errorf("%w: %w", err, errStale)
			}
		}
		err := s.api(ctx, "STREAM.INFO.", func(ctx context.Context) (err error) {
			info, err = s.stream.Info(ctx, jetstream.WithSubjectFilter(s.addr.filterOf(prefix)))
			return err
		})
		if err != nil {
			return nil, err
		}
	}

	for subject := range info.State.Subjects {
		name, ok := decodeName(strings.TrimPrefix(subject, s.addr.registers()))
		if ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Refresh implements [driver.Refresher] with a request for every 250 registers, and a barrier for all of them.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	names := make([]string, len(known))
	for i, l := range known {
		names[i] = l.Name
	}
	found, err := s.read(ctx, "refresh", names)

	all := make([]driver.Outcome, len(known))
	for i, name := range names {
		o := driver.Outcome{Err: err}
		if err == nil {
			o.Record, o.Err = s.outcome(name, found)
		} else {
			o.Err = s.explain(ctx, err)
		}
		if o.Err != nil {
			o.Err = fmt.Errorf("refresh %q: %w", name, o.Err)
		}
		all[i] = o
	}
	return all
}
