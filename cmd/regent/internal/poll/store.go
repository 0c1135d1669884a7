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

// registers is the number of registers that the polls of an election are spread over: one holds at most 64 KiB.
const registers = 256

// ErrTermEnded is returned by a change of polls after the term of the leader has ended. It is a [regent.ErrNotLeader].
var ErrTermEnded = fmt.Errorf("polls: %w", regent.ErrNotLeader)

// Store keeps the polls of an election in the store of the cluster, for one term. It is not safe for concurrent use.
//
// Only the leader writes, and a former leader cannot. When a term begins, its leader rewrites every register with its
// own epoch, so that a swap on a revision that an earlier leader has read is a conflict, however late it arrives. This
// holds for registers that do not exist yet too: the name of a register is added to an index before the register is
// created, and the next leader creates all registers in the index.
type Store struct {
	store    driver.Store
	election string
	epoch    uint64
	valid    func() bool

	records map[string]driver.Record // by register
	indexed map[string]bool          // registers in the index
}

// NewStore returns the poll store for the term of an election with an epoch. valid reports whether the term is still in
// force. Load must be called first.
func NewStore(store driver.Store, election string, epoch uint64, valid func() bool) *Store {
	return &Store{store: store, election: election, epoch: epoch, valid: valid}
}

// register returns the register of a poll.
func (s *Store) register(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))

	return fmt.Sprintf("regent/polls/%02x/%s", h.Sum32()%registers, s.election)
}

// index returns the register with the names of all other registers.
func (s *Store) index() string { return "regent/polls/index/" + s.election }

// Load reads all polls and claims their registers for this term. damaged describes the registers that cannot be parsed:
// they are not changed, and their polls are not returned.
func (s *Store) Load(ctx context.Context) (all []Poll, damaged error, err error) {
	if !driver.ValidName(s.index()) {
		return nil, nil, fmt.Errorf("election %.50q: its name is too long to keep polls in the store", s.election)
	}

	names, err := s.claimIndex(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(names) > 0 {
		if err := s.list(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := s.claim(ctx); err != nil {
		return nil, nil, err
	}

	for _, name := range names {
		polls, err := unpack(s.records[name].Data)
		if err != nil {
			damaged = errors.Join(damaged, fmt.Errorf("register %s: %w", name, err))
		}
		all = append(all, polls...)
	}
	slices.SortFunc(all, byName)

	return all, damaged, nil
}

func byName(a, b Poll) int { return strings.Compare(a.Name, b.Name) }

// claimIndex writes this term's epoch into the index and returns the registers in it. After that, no earlier leader can
// add a register.
func (s *Store) claimIndex(ctx context.Context) ([]string, error) {
	s.records = map[string]driver.Record{}
	s.indexed = map[string]bool{}
	if err := s.read(ctx, s.index()); err != nil {
		return nil, err
	}
	if err := s.write(ctx, s.index(), unchanged); err != nil {
		return nil, err
	}

	names, err := s.unpackIndex(s.records[s.index()].Data)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s.indexed[name] = true
		s.records[name] = driver.Record{Name: name}
	}

	return names, nil
}

func unchanged(data []byte) ([]byte, error) { return data, nil }

// list reads all registers in the index with one request.
func (s *Store) list(ctx context.Context) error {
	for record, err := range s.store.List(ctx, "regent/polls/") {
		if err != nil {
			return fmt.Errorf("list polls: %w: %w", regent.ErrStore, err)
		}
		if s.indexed[record.Name] {
			s.records[record.Name] = record
		}
	}

	return nil
}

// read reads a register.
func (s *Store) read(ctx context.Context, name string) error {
	record, err := s.store.Get(ctx, name)
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return fmt.Errorf("read polls: %w: %w", regent.ErrStore, err)
	}

	s.records[name] = record
	return nil
}

// claim writes this term's epoch into every register, in one request if the store can.
func (s *Store) claim(ctx context.Context) error {
	var old []driver.Record
	for name, record := range s.records {
		record.Name = name
		if record.Epoch > s.epoch {
			return ErrTermEnded
		}
		if record.Epoch < s.epoch {
			old = append(old, s.next(record, record.Data))
		}
	}

	if batcher, ok := s.store.(driver.Batcher); ok && len(old) > 1 {
		for i, out := range batcher.SwapAll(ctx, old) {
			if out.Err == nil {
				s.records[old[i].Name] = out.Record
			}
		}
	}

	for _, record := range old {
		for s.records[record.Name].Epoch < s.epoch {
			if err := s.write(ctx, record.Name, unchanged); err != nil {
				return err
			}
		}
	}

	return nil
}

// next returns the record that follows another one, written by this term.
func (s *Store) next(record driver.Record, data []byte) driver.Record {
	return driver.Record{
		Name:  record.Name,
		Rev:   record.Rev,
		Epoch: s.epoch,
		Nonce: rand.Uint64(),
		Since: time.Now(),
		Data:  data,
	}
}

// write changes a register by compare-and-swap, and retries until the change is applied or the term has ended.
func (s *Store) write(ctx context.Context, name string, edit func([]byte) ([]byte, error)) error {
	for {
		before := s.records[name]
		before.Name = name
		if before.Epoch > s.epoch || !s.valid() {
			return ErrTermEnded
		}

		data, err := edit(before.Data)
		if err != nil {
			return err
		}
		sent := s.next(before, data)
		got, err := s.store.Swap(ctx, sent)
		if err == nil {
			s.records[name] = got
			return nil
		}

		if rerr := s.read(ctx, name); rerr != nil {
			return fmt.Errorf("write polls: %w: %w; and read: %w", regent.ErrStore, err, rerr)
		}
		after := s.records[name]
		if after.Nonce == sent.Nonce {
			return nil // the swap was applied
		}
		if after.Rev == before.Rev && !errors.Is(err, driver.ErrConflict) {
			// The swap may still be applied. The next change of the same revision finds out.
			return fmt.Errorf("write polls: %w: %w", regent.ErrStore, err)
		}
	}
}

// Put adds a poll, or replaces the poll with its name.
func (s *Store) Put(ctx context.Context, p Poll) error {
	return s.replace(ctx, p.Name, p)
}

// Remove removes the poll with a name, if there is one.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.replace(ctx, name)
}

// replace removes the poll with a name and adds others.
func (s *Store) replace(ctx context.Context, name string, others ...Poll) error {
	if err := s.addToIndex(ctx, s.register(name)); err != nil {
		return err
	}

	return s.write(ctx, s.register(name), func(data []byte) ([]byte, error) {
		polls, err := unpack(data)
		if err != nil {
			return nil, err
		}

		polls = slices.DeleteFunc(polls, func(p Poll) bool { return p.Name == name })
		polls = append(polls, others...)
		slices.SortFunc(polls, byName)

		b, err := json.Marshal(polls)
		if err == nil && len(b) > driver.MaxData {
			err = fmt.Errorf("poll %s: there is no room for it: its register would have %d bytes, at most %d are kept",
				name, len(b), driver.MaxData)
		}
		return b, err
	})
}

// addToIndex adds a register to the index.
func (s *Store) addToIndex(ctx context.Context, register string) error {
	if s.indexed[register] {
		return nil
	}

	err := s.write(ctx, s.index(), func(data []byte) ([]byte, error) {
		names, err := s.unpackIndex(data)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, register) {
			names = append(names, register)
		}
		return json.Marshal(names)
	})
	if err == nil {
		s.indexed[register] = true
	}

	return err
}

// Has reports whether the store has a poll with a name.
func (s *Store) Has(name string) bool {
	polls, err := unpack(s.records[s.register(name)].Data)
	return err == nil && slices.ContainsFunc(polls, func(p Poll) bool { return p.Name == name })
}

func (s *Store) unpackIndex(data []byte) (names []string, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, fmt.Errorf("register %s cannot be parsed: %w", s.index(), err)
	}

	return names, nil
}

func unpack(data []byte) (polls []Poll, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &polls); err != nil {
		return nil, fmt.Errorf("its polls cannot be parsed: %w", err)
	}

	return polls, nil
}
