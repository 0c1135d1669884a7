package driver

import (
	"fmt"
	"iter"
	"slices"
)

// ListPages returns what [Store.List] yields, for a driver that reads registers a page at a time, in the order of their
// names. page returns the registers below prefix that come after a name, size of them, or fewer if these are the last.
func ListPages(
	prefix string, size int, page func(after string) ([]Outcome, error),
) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		after := "" // no name is empty
		for {
			outs, err := page(after)
			if err != nil {
				yield(Record{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}

			for _, o := range outs {
				if !yield(o.Record, o.Err) {
					return
				}
			}

			if len(outs) < size {
				return
			}
			after = outs[len(outs)-1].Record.Name
		}
	}
}

// RefreshPages is [Refresher.Refresh] for a driver that asks for many registers at once. changed returns, by name,
// those of a page that have another revision than the known record.
func RefreshPages(
	known []Record, size int, changed func(page []Record) (map[string]Outcome, error),
) []Outcome {
	outs := make([]Outcome, 0, len(known))
	for page := range slices.Chunk(known, size) {
		moved, err := changed(page)
		for _, l := range page {
			o, ok := moved[l.Name]
			switch {
			case err != nil:
				o = Outcome{Err: fmt.Errorf("refresh %q: %w", l.Name, err)}
			case !ok:
				o = Outcome{Record: l}
			}
			outs = append(outs, o)
		}
	}

	return outs
}
