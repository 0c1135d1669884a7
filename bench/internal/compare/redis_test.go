package compare

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func TestCalls(t *testing.T) {
	before := parseCalls("# Commandstats\r\ncmdstat_get:calls=10,usec=12,usec_per_call=1.20\r\n" +
		"cmdstat_info:calls=1,usec=1\r\n")
	after := parseCalls("cmdstat_get:calls=15,usec=12\r\ncmdstat_evalsha:calls=7,usec=99\r\n" +
		"cmdstat_client|tracking:calls=2,usec=1\r\ncmdstat_info:calls=2,usec=1\r\n")
	if before["get"] != 10 || after["client|tracking"] != 2 || len(before) != 2 {
		t.Errorf("%v, %v", before, after)
	}
	if n := requests(before, after, nil); n != 14 {
		t.Errorf("%d requests, want 14", n)
	}

	if n := requests(before, after, []string{"get"}); n != 9 {
		t.Errorf("%d requests without what scripts call, want 9", n)
	}
}

// TestRequestsOfScripts checks that the commands that Regent's scripts call are known, so that each request counts as
// one.
func TestRequestsOfScripts(t *testing.T) {
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()

	srv, err := l.redis()
	if err != nil {
		t.Fatal(err)
	}

	store, err := l.store(t.Context(), srv)
	if err != nil {
		t.Fatal(err)
	}

	claim := swaps(store)
	for _, profile := range []struct{ via string }{{""}, {driver.MemberRegister("bench")}} {
		record := driver.Record{Name: "seat" + profile.via, Via: profile.via,
			Holder: driver.Identity{ID: "bench", Incarnation: "1"}, Epoch: 1, Nonce: 1, Duration: time.Minute}
		op := operation{server: srv, inScripts: scripted, do: func(ctx context.Context) (err error) {
			if record, err = store.Swap(ctx, record); err == nil {
				record.Nonce++
				_, err = store.Get(ctx, record.Name)
			}
			return errors.Join(err, claim(ctx))
		}}
		if err := op.do(t.Context()); err != nil { // the server learns the scripts
			t.Fatal(err)
		}

		if err := op.count(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if op.requests != 4 {
			t.Errorf("a renewal, a read, a claim and a release count as %v requests, want 4", op.requests)
		}
	}
}
