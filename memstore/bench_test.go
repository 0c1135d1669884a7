package memstore_test

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// BenchmarkRenewal is what the store adds to a heartbeat: a swap of one register, again and again.
func BenchmarkRenewal(b *testing.B) {
	c := memstore.New().Client("a", memstore.Faults{})
	l := driver.Record{Name: "regent/member/a", Holder: driver.Identity{ID: "a", Incarnation: "1"}, Epoch: 1,
		Duration: time.Second}
	for b.Loop() {
		l.Nonce++
		next, err := c.Swap(b.Context(), l)
		if err != nil {
			b.Fatal(err)
		}
		l = next
	}
}

func TestARenewalAllocatesItsRevisionOnly(t *testing.T) {
	c := memstore.New().Client("a", memstore.Faults{})
	l := driver.Record{Name: "regent/member/a", Holder: driver.Identity{ID: "a", Incarnation: "1"}, Epoch: 1}
	got := testing.AllocsPerRun(1000, func() {
		l.Nonce++
		next, err := c.Swap(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		l = next
	})

	if got > 1 {
		t.Errorf("a renewal allocates %v times, want 1 at most", got)
	}
}
