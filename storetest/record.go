package storetest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/regentd/regent/driver"
)

// differ returns how two records differ apart from the revision, or an empty string. Times are equal if they are the
// same moment, those of ended terms if they are less than a millisecond apart, and nil data equals empty data.
func differ(want, got driver.Record) string {
	var d string
	note := func(field string, same bool, want, got any) {
		if !same {
			d += fmt.Sprintf(" %s is %v, want %v;", field, got, want)
		}
	}

	note("Name", want.Name == got.Name, want.Name, got.Name)
	note("Holder", want.Holder == got.Holder, want.Holder, got.Holder)
	note("Addr", want.Addr == got.Addr, want.Addr, got.Addr)
	note("Epoch", want.Epoch == got.Epoch, want.Epoch, got.Epoch)
	note("Nonce", want.Nonce == got.Nonce, want.Nonce, got.Nonce)
	note("Duration", want.Duration == got.Duration, want.Duration, got.Duration)

	note("Via", want.Via == got.Via, want.Via, got.Via)
	note("Next", want.Next == got.Next, want.Next, got.Next)
	note("Paused", want.Paused == got.Paused, want.Paused, got.Paused)
	note("Since", want.Since.Equal(got.Since), want.Since, got.Since)
	note("Data", bytes.Equal(want.Data, got.Data), digest(want.Data), digest(got.Data))
	note("len(Past)", len(want.Past) == len(got.Past), len(want.Past), len(got.Past))

	for i := range min(len(want.Past), len(got.Past)) {
		w, g := want.Past[i], got.Past[i]
		same := w.Epoch == g.Epoch && w.Holder == g.Holder && w.Reason == g.Reason && near(w.Began, g.Began) &&
			near(w.Ended, g.Ended)
		note(fmt.Sprintf("Past[%d]", i), same, w, g)
	}

	return d
}

// digest identifies data without printing 64 KiB of it.
func digest(data []byte) string {
	return fmt.Sprintf("%d bytes of CRC %08x", len(data), crc32.ChecksumIEEE(data))
}

// roundTrip writes records one over the other, and wants to read each from another client, by Get and by List.
func (r *rig) roundTrip(records []driver.Record) {
	r.Helper()
	a, b := r.client(), r.client()
	var rev string
	for i, l := range records {
		l.Name, l.Rev = "seat", rev
		rev = r.swap(a, l).Rev
		if diff := differ(l, r.get(b, "seat")); diff != "" {
			r.Errorf("record %d comes back from Get with:%s", i, diff)
		}

		listed := r.list(b, "seat")["seat"]
		if diff := differ(l, listed); diff != "" {
			r.Errorf("record %d comes back from List with:%s", i, diff)
		}

		if listed.Rev != rev {
			r.Errorf("record %d comes back from List at revision %q, want %q", i, listed.Rev, rev)
		}
	}
}

// near reports whether two times of an ended term are the same: see [driver.Past].
func near(want, got time.Time) bool {
	return want.IsZero() == got.IsZero() && want.Sub(got).Abs() < time.Millisecond
}

// full returns a record with every field set, and every number as large as possible.
func full() driver.Record {
	// Not a round time, not UTC, and finer than a millisecond.
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.FixedZone("", 5*3600+45*60))
	l := driver.Record{
		Holder: driver.Identity{ID: "nöde \"1\"\\ <a&b>", Incarnation: "f00d"}, Addr: "[::1]:7000",
		Epoch: math.MaxUint64,
		Nonce: math.MaxUint64, Duration: time.Hour + time.Nanosecond, Via: driver.MemberRegister("a"), Next: "node 2",
		Paused: true, Since: at, Data: []byte("{}"),
	}

	for i := range 32 {
		l.Past = append(l.Past, driver.Past{
			Epoch: math.MaxUint64 - uint64(i), Holder: fmt.Sprintf("nöde %d", i),
			Began: at.Add(time.Duration(i) * time.Microsecond),
			Ended: at.Add(time.Hour), Reason: "released: \"por qué\"\n\ttab",
		})
	}

	return l
}

var recordChecks = []check{
	{"every_field_comes_back_as_it_was", func(r *rig) {
		one := full()
		one.Past = one.Past[:1]
		r.roundTrip([]driver.Record{full(), {}, taken("seat", 0), one, {Paused: true},
			{Epoch: math.MaxInt64 + 1, Next: "b"}, full()})
	}},
	{"a_nonce_comes_back_to_the_last_bit", func(r *rig) {
		var records []driver.Record
		for _, n := range []uint64{0, 1, 1<<53 + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1,
			math.MaxUint64} {
			l := taken("seat", n)
			l.Epoch = n
			records = append(records, l)
		}
		r.roundTrip(records)
	}},
	{"a_checkpoint_of_64_KiB_comes_back", func(r *rig) {
		every := make([]byte, driver.MaxData)
		for i := range every {
			every[i] = byte(i)
		}

		var records []driver.Record
		for _, data := range [][]byte{
			every, nil, {0}, []byte("null"), bytes.Repeat([]byte{0xff}, driver.MaxData), []byte("'\\\r\n"),
			every[:driver.MaxData-1],
		} {
			l := full()
			l.Data = data
			records = append(records, l)
		}

		r.roundTrip(records)
	}},
}
