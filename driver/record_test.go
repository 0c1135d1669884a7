package driver_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func TestRecordJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	full := driver.Record{
		Name: "n", Rev: "r", Holder: driver.Identity{ID: `a"\ü` + "\x01", Incarnation: "i"}, Addr: "h:1",
		Epoch: math.MaxUint64, Nonce: math.MaxUint64,
		Duration: 1500 * time.Millisecond, Via: "v", Next: "x", Paused: true, Since: at, Data: []byte{0, 255, 10},
		Past: []driver.Past{{Epoch: 1, Holder: "a", Began: at, Ended: at.Add(time.Second), Reason: "shutdown"},
			{Epoch: 2, Holder: "b", Began: at, Ended: at, Reason: "expired"}},
	}

	for _, l := range []driver.Record{{Name: "n", Rev: "r"}, full} {
		b := l.AppendJSON(nil)
		if !json.Valid(b) || bytes.Contains(b, []byte("\n")) {
			t.Errorf("not a line of JSON: %s", b)
		}
		got, err := driver.ParseRecord("n", "r", b)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%s\ngave %+v, %v\nwant %+v", b, got, err, l)
		}
	}

	for _, bad := range []string{"", "{", `{"epoch":-1}`, `{"nonce":"x"}`, `{"nonce":"1","duration":"soon"}`, `[]`,
		`null`} {
		if l, err := driver.ParseRecord("n", "r", []byte(bad)); err == nil || !strings.Contains(err.Error(), `"n"`) {
			t.Errorf("%q gave %+v, %v", bad, l, err)
		}
	}
}

func FuzzRecordJSON(f *testing.F) {
	f.Add("id", "inc", "addr", uint64(1), uint64(2), int64(3), []byte("data"), true)
	f.Fuzz(func(t *testing.T, id, inc, addr string, epoch, nonce uint64, d int64, data []byte, paused bool) {
		l := driver.Record{Name: "n", Holder: driver.Identity{ID: id, Incarnation: inc}, Addr: addr, Epoch: epoch,
			Nonce:    nonce,
			Duration: time.Duration(d), Data: data, Paused: paused}
		b := l.AppendJSON(nil)
		got, err := driver.ParseRecord("n", "", b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}

		if again := got.AppendJSON(nil); !bytes.Equal(again, b) {
			t.Errorf("%s\nbecame %s", b, again)
		}
	})
}

// FuzzParseRecord compares the quick way to read a record with the long one, which any blank forces.
func FuzzParseRecord(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	f.Add(driver.Record{Epoch: 7, Duration: time.Second}.AppendJSON(nil))
	f.Add(driver.Record{Epoch: 7, Nonce: 9, Duration: time.Second, Holder: driver.Identity{ID: "a", Incarnation: "i"},
		Addr: "h:1", Via: "v", Next: "n", Paused: true, Since: at,
		Data: []byte("xyz"), Past: []driver.Past{{Epoch: 1, Holder: "a", Began: at, Ended: at, Reason: "shutdown"},
			{Epoch: 2, Began: at, Ended: at}}}.AppendJSON(nil))

	f.Add([]byte(`{"epoch":01,"nonce":"0","duration":"0s"}`))
	f.Add([]byte(`{"epoch":1,"nonce":"0","duration":"0s","data":"!"}`))
	f.Add([]byte(`{"epoch":1,"nonce":"0","duration":"0s","past":[]}`))
	f.Add([]byte(`{"epoch":1,"nonce":"0","duration":"0s","past":[{"epoch":1,"began":"x","ended":""}]}`))
	f.Add([]byte(`{"epoch":1,"nonce":"0","duration":"0s","terms":""}`))
	f.Add([]byte(`{"epoch":1,"nonce":"0","duration":"0s","terms":"AgABYey8uuXe16MGgol6","past":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		quick, qerr := driver.ParseRecord("n", "r", b)
		long, lerr := driver.ParseRecord("n", "r", append([]byte(" "), b...))
		if (qerr == nil) != (lerr == nil) {
			t.Fatalf("%q: %v, or %v", b, qerr, lerr)
		}
		if qerr == nil && !bytes.Equal(quick.AppendJSON(nil), long.AppendJSON(nil)) {
			t.Errorf("%q is\n%+v, or\n%+v", b, quick, long)
		}
	})
}

func BenchmarkLeaseJSON(b *testing.B) {
	at := time.Now()
	l := driver.Record{Name: "n", Holder: driver.Identity{ID: "node-a", Incarnation: strings.Repeat("I", 26)},
		Addr: "10.0.0.1:7468", Epoch: 1000, Nonce: 1 << 60,
		Duration: 30 * time.Second, Since: at}
	for i := range 32 {
		l.Past = append(l.Past, driver.Past{Epoch: uint64(968 + i), Holder: []string{"node-a", "node-b"}[i%2],
			Began: at, Ended: at.Add(time.Minute), Reason: "shutdown"})
	}

	text := l.AppendJSON(nil)

	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text = l.AppendJSON(text[:0])
		}
	})

	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := driver.ParseRecord("n", "", text); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("parse_the_long_way", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := driver.ParseRecord("n", "", append([]byte(" "), text...)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
