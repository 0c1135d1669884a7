package storetest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// skimming is a correct Skimmer: what it has read serves for a while, with the revision of now.
type skimming struct {
	*brokenStore
	mu   sync.Mutex
	kept map[string]keptRecord

	rev  bool // faults: revisions are as old as records,
	age  bool // records serve for ever,
	ends bool // a skim does not end with its context,
	spy  bool // what it has kept shows in lists,
	less bool // and a list of smaller names leaves out one
}

type keptRecord struct {
	record driver.Record
	at     time.Time
}

func (s *skimming) Skim(ctx context.Context, prefix string, age time.Duration) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		if s.ends {
			ctx = context.WithoutCancel(ctx)
		}

		for l, err := range s.brokenStore.List(ctx, prefix) {
			if !yield(s.keep(l, age), err) {
				return
			}
		}
	}
}

func (s *skimming) keep(l driver.Record, age time.Duration) driver.Record {
	s.mu.Lock()
	defer s.mu.Unlock()

	k, ok := s.kept[l.Name]
	if !ok || !s.age && time.Since(k.at) >= age {
		k = keptRecord{l, time.Now()}
		s.kept[l.Name] = k
	}

	if !s.rev {
		k.record.Rev = l.Rev
	}

	return k.record
}

func (s *skimming) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	if !s.spy {
		return s.brokenStore.List(ctx, prefix)
	}

	return s.Skim(ctx, prefix, anyAge)
}

func (s *skimming) ListBefore(ctx context.Context, prefix, before string) iter.Seq2[driver.Record, error] {
	return only(s.brokenStore.List(ctx, prefix), func(name string) bool {
		return name < before && !(s.less && name == "seat/b")
	})
}

// skims opens clients that skim, with a fault.
func skims(fault func(*skimming)) func() Open {
	return func() Open {
		open := breakStore(func(*brokenStore) {})
		return func() (driver.Store, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}

			k := &skimming{brokenStore: s.(*brokenStore), kept: map[string]keptRecord{}}
			fault(k)
			return k, nil
		}
	}
}

// brokenSkims are stores with a faulty Skim.
func brokenSkims() []mutant {
	const once = "skim_yields_every_register_once_with_its_current_revision"
	return []mutant{
		{"skimmed_revisions_are_old", []string{once}, skims(func(s *skimming) { s.rev = true })},
		{"skimmed_records_serve_for_ever", []string{"skim_shows_no_record_that_is_older_than_asked_for"},
			skims(func(s *skimming) { s.age = true })},
		{"a_skim_goes_on_without_its_context", []string{"a_skim_may_be_broken_off_and_ends_with_its_context"},
			skims(func(s *skimming) { s.ends = true })},
		{"lists_show_what_a_skim_has_kept", []string{"a_list_after_a_skim_shows_records_as_they_are"},
			skims(func(s *skimming) { s.spy = true })},
		{"a_list_of_smaller_names_leaves_one_out", []string{"list_before_shows_every_register_with_a_smaller_name"},
			skims(func(s *skimming) { s.less = true })},
		{"a_skim_misses_what_is_new", []string{"skim_shows_a_register_that_was_written_since", once},
			skims(func(s *skimming) {
				list := s.brokenStore.list
				listed := map[string]bool{}
				s.brokenStore.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
					first := len(listed) == 0
					return only(list(ctx, prefix), func(name string) bool {
						if first {
							listed[name] = true
						}

						return listed[name] && name != "seat/39"
					})
				}
			})},
	}
}
