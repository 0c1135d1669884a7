package regent_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestLeaseJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	full := regent.Lease{
		Name: "n", Rev: "r", Holder: regent.Identity{ID: `a"\ü` + "\x01", Incarnation: "i"}, Addr: "h:1", Epoch: math.MaxUint64, Nonce: math.MaxUint64,
		Duration: 1500 * time.Millisecond, Via: "v", Next: "x", Paused: true, Since: at, Data: []byte{0, 255, 10},
		Past: []regent.Past{{Epoch: 1, Holder: "a", Began: at, Ended: at.Add(time.Second), Reason: "shutdown"}, {Epoch: 2, Holder: "b", Began: at, Ended: at, Reason: "expired"}},
	}
	for _, l := range []regent.Lease{{Name: "n", Rev: "r"}, full} {
		b := l.AppendJSON(nil)
		if !json.Valid(b) || bytes.Contains(b, []byte("\n")) {
			t.Errorf("not a line of JSON: %s", b)
		}
		got, err := regent.ParseLease("n", "r", b)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%s\ngave %+v, %v\nwant %+v", b, got, err, l)
		}
	}
	for _, bad := range []string{"", "{", `{"epoch":-1}`, `{"nonce":"x"}`, `{"nonce":"1","duration":"soon"}`, `[]`, `null`} {
		if l, err := regent.ParseLease("n", "r", []byte(bad)); err == nil || !strings.Contains(err.Error(), `"n"`) {
			t.Errorf("%q gave %+v, %v", bad, l, err)
		}
	}
}

func FuzzLeaseJSON(f *testing.F) {
	f.Add("id", "inc", "addr", uint64(1), uint64(2), int64(3), []byte("data"), true)
	f.Fuzz(func(t *testing.T, id, inc, addr string, epoch, nonce uint64, d int64, data []byte, paused bool) {
		l := regent.Lease{Name: "n", Holder: regent.Identity{ID: id, Incarnation: inc}, Addr: addr, Epoch: epoch, Nonce: nonce,
			Duration: time.Duration(d), Data: data, Paused: paused}
		b := l.AppendJSON(nil)
		got, err := regent.ParseLease("n", "", b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if again := got.AppendJSON(nil); !bytes.Equal(again, b) {
			t.Errorf("%s\nbecame %s", b, again)
		}
	})
}
