package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// shelves is how many registers the polls of an election are spread over: a register holds 64 KiB.
const shelves = 256

// shelf keeps polls in the store. Only a leader writes, and a former one cannot: when a term begins, its leader writes every register anew with its
// own epoch, so that a swap on a revision that an earlier leader has seen is a conflict, however late it comes. That holds for registers that do
// not exist yet as well: before one is made it is noted in an index, and the next leader makes all that are noted.
type shelf struct {
	store    driver.Store
	election string
	epoch    uint64
	valid    func() bool

	records map[string]driver.Record // by register
	noted   map[string]bool          // registers that are in the index
}

// errNotLeading says that the term was over when a poll should have been written.
var errNotLeading = fmt.Errorf("polls: %w", regent.ErrNotLeader)

// register is where a poll is kept.
func (s *shelf) register(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("regent/polls/%02x/%s", h.Sum32()%shelves, s.election)
}

// index is the register that tells which others there are.
func (s *shelf) index() string { return "regent/polls/index/" + s.election }

// load reads all polls and makes them this term's. Registers that cannot be read are told in spoilt, and left as they are.
func (s *shelf) load(ctx context.Context) (all []Poll, spoilt error, err error) {
	if !driver.ValidName(s.index()) {
		return nil, nil, fmt.Errorf("election %.50q: the name is too long for polls to be kept in the store", s.election)
	}
	s.records, s.noted = map[string]driver.Record{}, map[string]bool{}
	// The index first: once it is this term's, no earlier leader can add to it.
	if err := s.read(ctx, s.index()); err != nil {
		return nil, nil, err
	}
	if err := s.write(ctx, s.index(), func(data []byte) ([]byte, error) { return data, nil }); err != nil {
		return nil, nil, err
	}
	var names []string
	if data := s.records[s.index()].Data; len(data) > 0 {
		if err := json.Unmarshal(data, &names); err != nil {
			return nil, nil, fmt.Errorf("register %s cannot be read: %w", s.index(), err)
		}
	}
	for _, name := range names {
		s.noted[name] = true
		s.records[name] = driver.Record{Name: name}
	}
	if len(names) > 0 {
		for l, err := range s.store.List(ctx, "regent/polls/") {
			if err != nil {
				return nil, nil, fmt.Errorf("list polls: %w: %w", regent.ErrStore, err)
			}
			if s.noted[l.Name] {
				s.records[l.Name] = l
			}
		}
	}
	if err := s.claim(ctx); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		polls, err := unpack(s.records[name])
		if err != nil {
			spoilt = errors.Join(spoilt, fmt.Errorf("register %s: %w", name, err))
		}
		all = append(all, polls...)
	}
	slices.SortFunc(all, func(a, b Poll) int { return strings.Compare(a.Name, b.Name) })
	return all, spoilt, nil
}

// read takes in how a register stands.
func (s *shelf) read(ctx context.Context, name string) error {
	l, err := s.store.Get(ctx, name)
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return fmt.Errorf("read polls: %w: %w", regent.ErrStore, err)
	}
	s.records[name] = l
	return nil
}

// claim writes this term's epoch into every register, together where the store can.
func (s *shelf) claim(ctx context.Context) error {
	var old []driver.Record
	for name, l := range s.records {
		l.Name = name
		if l.Epoch > s.epoch {
			return errNotLeading
		}
		if l.Epoch < s.epoch {
			old = append(old, s.mine(l, l.Data))
		}
	}
	if batcher, ok := s.store.(driver.Batcher); ok && len(old) > 1 {
		for i, out := range batcher.SwapAll(ctx, old) {
			if out.Err == nil {
				s.records[old[i].Name] = out.Record
			}
		}
	}
	for _, l := range old {
		for s.records[l.Name].Epoch < s.epoch {
			if err := s.write(ctx, l.Name, func(data []byte) ([]byte, error) { return data, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *shelf) mine(l driver.Record, data []byte) driver.Record {
	return driver.Record{Name: l.Name, Rev: l.Rev, Epoch: s.epoch, Nonce: rand.Uint64(), Since: time.Now(), Data: data}
}

// write changes a register by compare-and-swap, until it is known to be changed or somebody else's.
func (s *shelf) write(ctx context.Context, name string, edit func([]byte) ([]byte, error)) error {
	for {
		l := s.records[name]
		l.Name = name
		if l.Epoch > s.epoch || !s.valid() {
			return errNotLeading
		}
		data, err := edit(l.Data)
		if err != nil {
			return err
		}
		sent := s.mine(l, data)
		got, err := s.store.Swap(ctx, sent)
		if err == nil {
			s.records[name] = got
			return nil
		}
		if rerr := s.read(ctx, name); rerr != nil {
			return fmt.Errorf("write polls: %w: %w; and read: %w", regent.ErrStore, err, rerr)
		}
		now := s.records[name]
		if now.Nonce == sent.Nonce {
			return nil // it was applied
		}
		if now.Rev == l.Rev && !errors.Is(err, driver.ErrConflict) {
			return fmt.Errorf("write polls: %w: %w", regent.ErrStore, err) // it may yet be applied, which an edit of the same revision will find out
		}
	}
}

// put keeps a poll.
func (s *shelf) put(ctx context.Context, p Poll) error {
	return s.edit(ctx, p.Name, func(polls []Poll) []Poll { return append(polls, p) })
}

// remove forgets a poll.
func (s *shelf) remove(ctx context.Context, name string) error {
	return s.edit(ctx, name, func(polls []Poll) []Poll { return polls })
}

// edit replaces the poll of a name by what change adds.
func (s *shelf) edit(ctx context.Context, name string, change func([]Poll) []Poll) error {
	if err := s.note(ctx, s.register(name)); err != nil {
		return err
	}
	return s.write(ctx, s.register(name), func(data []byte) ([]byte, error) {
		polls, err := unpack(driver.Record{Data: data})
		if err != nil {
			return nil, err
		}
		polls = change(slices.DeleteFunc(polls, func(p Poll) bool { return p.Name == name }))
		slices.SortFunc(polls, func(a, b Poll) int { return strings.Compare(a.Name, b.Name) })
		b, err := json.Marshal(polls)
		if err == nil && len(b) > driver.MaxData {
			err = fmt.Errorf("poll %s: there is no room for it: with those it shares a register with it takes %d bytes, at most %d are kept", name, len(b), driver.MaxData)
		}
		return b, err
	})
}

// note puts a register into the index.
func (s *shelf) note(ctx context.Context, register string) error {
	if s.noted[register] {
		return nil
	}
	err := s.write(ctx, s.index(), func(data []byte) ([]byte, error) {
		var names []string
		if len(data) > 0 {
			if err := json.Unmarshal(data, &names); err != nil {
				return nil, fmt.Errorf("register %s cannot be read: %w", s.index(), err)
			}
		}
		if !slices.Contains(names, register) {
			names = append(names, register)
		}
		return json.Marshal(names)
	})
	if err == nil {
		s.noted[register] = true
	}
	return err
}

// has reports whether a poll is kept.
func (s *shelf) has(name string) bool {
	polls, err := unpack(s.records[s.register(name)])
	return err == nil && slices.ContainsFunc(polls, func(p Poll) bool { return p.Name == name })
}

func unpack(l driver.Record) ([]Poll, error) {
	var polls []Poll
	if len(l.Data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(l.Data, &polls); err != nil {
		return nil, fmt.Errorf("the polls in it cannot be read: %w", err)
	}
	return polls, nil
}
