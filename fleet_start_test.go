package regent_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// lazyLists counts the records that lists have shown: on S3 each of them is a request.
type lazyLists struct {
	driver.Store // which does not push
	shown        *atomic.Int64
}

func (s lazyLists) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range s.Store.List(ctx, prefix) {
			s.shown.Add(1)
			if !yield(l, err) {
				return
			}
		}
	}
}

func (s lazyLists) ListBefore(ctx context.Context, prefix, before string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range s.Store.List(ctx, prefix) {
			if l.Name >= before {
				continue
			}

			s.shown.Add(1)
			if !yield(l, err) {
				return
			}
		}
	}
}

// TestFleetStartsWithFewReads is about what it costs a fleet to find out whose ID is the smallest: each member stops at
// the first smaller one. Then the leader lists all members twice.
func TestFleetStartsWithFewReads(t *testing.T) {
	for _, size := range []int{50, 200} {
		t.Run(fmt.Sprintf("J11_J13_a_fleet_of_%d", size), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var shown atomic.Int64
				nodes := startFleet(c, size, config(regent.Fleet()), func(m *regent.Member) {
					m.Store = lazyLists{m.Store, &shown}
				})

				time.Sleep(15 * time.Second)
				if n, _ := leader(t, 0, nodes...); n.ID != "n000" {
					t.Errorf("%s leads", n.ID)
				}

				t.Logf("lists have shown %d records", shown.Load())
				if most := int64(4 * size); shown.Load() > most {
					t.Errorf("lists have shown %d records, want at most %d", shown.Load(), most)
				}

				quitAll(nodes)
			})
		})
	}
}
