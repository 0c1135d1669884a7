package driver_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// written returns the terms of a record as a reader gets them.
func written(t *testing.T, past []driver.Past) []driver.Past {
	t.Helper()
	b := driver.Record{Duration: time.Second, Past: past}.AppendJSON(nil)
	r, err := driver.ParseRecord("n", "r", b)
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}

	return r.Past
}

func TestPastIsKept(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999000000, time.UTC)
	var crowd []driver.Past
	for i := range 3 * driver.MaxPast {
		p := driver.Past{Epoch: uint64(i), Holder: fmt.Sprint("member-", i/2), Reason: fmt.Sprint(i % 50)}
		crowd = append(crowd, p)
	}

	for name, past := range map[string][]driver.Past{
		"more_members_and_reasons_than_have_a_number": crowd,
		"a_term_without_anything":                     {{}},
		"epochs_that_are_not_in_order": {
			{Epoch: 7}, {Epoch: 8}, {Epoch: 8}, {Epoch: 3}, {Epoch: math.MaxUint64}, {Epoch: 0}, {Epoch: 1},
		},
		"times_that_are_not_known": {
			{Epoch: 1, Holder: "a", Reason: "expired"}, {Epoch: 2, Holder: "a", Began: at, Reason: "forgotten"},
			{Epoch: 3, Holder: "b", Ended: at.Add(time.Second), Reason: "shutdown"},
		},
		"clocks_that_differ": {
			{Epoch: 1, Holder: "a", Began: at, Ended: at.Add(-time.Hour), Reason: "died"},
			{Epoch: 2, Holder: "b", Began: at.Add(-49 * time.Hour), Ended: at.Add(50 * time.Hour), Reason: "died"},
		},
		"times_from_end_to_end": {
			{Epoch: 1, Began: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), Ended: last}, {Epoch: 2, Ended: last},
			{Epoch: 3, Began: time.Unix(0, 0).UTC(), Ended: time.Unix(0, 0).UTC()},
		},
		"reasons_of_other_versions": {
			{Epoch: 1, Holder: "a", Began: at, Ended: at, Reason: "a new reason"},
			{Epoch: 2, Holder: "a new reason", Began: at, Ended: at, Reason: "a new reason, too"},
			{Epoch: 3, Holder: "", Began: at, Ended: at, Reason: ""},
		},
		"members_with_like_names": {
			{Epoch: 1, Holder: "web-7d9f8b6c5d-x2k4j", Reason: "died"}, {Epoch: 2, Holder: "web-7d9f8b6c5d-zzzzz"},
			{Epoch: 3, Holder: "web-7d9f8b6c5d-x2k4j"}, {Epoch: 4, Holder: "web"}, {Epoch: 5, Holder: "\"\\ü\x01"},
			{Epoch: 6, Holder: strings.Repeat("long", 100), Reason: strings.Repeat("r", 1000)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(t, past); !reflect.DeepEqual(got, past) {
				t.Errorf("got %+v, want %+v", got, past)
			}
		})
	}
}

// The times of a term are written anew with every term after it, and must not move by that.
func TestPastTimesAreRoundedOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	var past, exact []driver.Past
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		p := driver.Past{Epoch: uint64(i + 1), Holder: "a", Reason: "shutdown"}
		at = at.Add(time.Duration(rng.Int64N(1 << (20 + i%25))))
		p.Began = at
		at = at.Add(time.Duration(rng.Int64N(1 << (20 + i%30))))
		p.Ended = at

		exact = append(exact, p)
		past = written(t, append(past, p))
		if len(past) > driver.MaxPast {
			past = past[1:]
		}
	}

	for i, p := range past {
		want := exact[len(exact)-len(past)+i]
		for _, late := range []time.Duration{want.Began.Sub(p.Began), want.Ended.Sub(p.Ended)} {
			if late < 0 || late >= time.Millisecond {
				t.Errorf("term %d: a time is off by %v", p.Epoch, late)
			}
		}

		if i > 0 && p.Began.Before(past[i-1].Ended) || p.Ended.Before(p.Began) {
			t.Errorf("term %d seems to begin before the one before has ended: %+v after %+v", p.Epoch, p, past[i-1])
		}

		if p.Holder != want.Holder || p.Reason != want.Reason || p.Epoch != want.Epoch {
			t.Errorf("got %+v, want %+v", p, want)
		}
	}
}

// ordinary returns the record of an election whose 32 terms were held by three members, for hours each.
func ordinary(at time.Time) driver.Record {
	l := driver.Record{
		Name: "coordinator", Rev: "r", Addr: "10.0.0.12:7468",
		Holder: driver.Identity{ID: "node-b", Incarnation: "17." + strings.Repeat("I", 26)},
		Epoch:  1000, Nonce: math.MaxUint64, Duration: 6 * time.Second,
		Via: "regent/member/node-b", Since: at,
	}
	reasons := []string{"shutdown", "expired", "died", "handoff", "lost lease"}
	gaps := []time.Duration{970 * time.Microsecond, 7013 * time.Millisecond, 4821 * time.Microsecond}
	for i := range driver.MaxPast {
		p := driver.Past{Epoch: uint64(968 + i), Holder: fmt.Sprint("node-", "abc"[i%3:i%3+1])}
		p.Reason = reasons[i%len(reasons)]
		p.Began = at
		at = at.Add(11*time.Hour + time.Duration(i)*37*time.Minute + 123456789)
		p.Ended = at
		at = at.Add(gaps[i%len(gaps)])
		l.Past = append(l.Past, p)
	}

	return l
}

func TestRecordOfOrdinaryTermIsSmall(t *testing.T) {
	l := ordinary(time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC))
	b := l.AppendJSON(nil)
	t.Logf("%d bytes: %s", len(b), b)
	if len(b) >= 600 {
		t.Errorf("a record of %d terms has %d bytes", len(l.Past), len(b))
	}

	l.Holder, l.Via, l.Addr, l.Since = driver.Identity{}, "", "", time.Time{}
	if b = l.AppendJSON(nil); len(b) >= 450 {
		t.Errorf("a vacant record of %d terms has %d bytes: %s", len(l.Past), len(b), b)
	}
}

// Earlier versions wrote the terms at length.
func TestRecordOfEarlierVersionIsRead(t *testing.T) {
	text := `{"epoch":3,"nonce":"7","duration":"6s","holder":"c","incarnation":"i","past":[` +
		`{"epoch":1,"holder":"a","began":"2026-01-02T03:04:05.678901234Z","ended":"2026-01-02T04:00:00Z",` +
		`"reason":"shutdown"},{"epoch":2,"began":"2026-01-02T04:00:01Z","ended":"0001-01-01T00:00:00Z"}]}`
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	want := []driver.Past{
		{Epoch: 1, Holder: "a", Began: at, Ended: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), Reason: "shutdown"},
		{Epoch: 2, Began: time.Date(2026, 1, 2, 4, 0, 1, 0, time.UTC)},
	}
	for _, text := range []string{text, " " + text} {
		r, err := driver.ParseRecord("n", "r", []byte(text))
		if err != nil || !reflect.DeepEqual(r.Past, want) {
			t.Fatalf("got %+v, %v; want %+v", r.Past, err, want)
		}

		again, err := driver.ParseRecord("n", "r", r.AppendJSON(nil))
		if err != nil || len(again.Past) != 2 || again.Past[1].Epoch != 2 {
			t.Errorf("written anew: %+v, %v", again.Past, err)
		}
	}
}

func TestTermsThatAreNoneAreRefused(t *testing.T) {
	for _, terms := range []string{
		"", "!", "A", "AA", "AAAA", "Eg", // nothing, no base64, an unfinished term
		"EgAA", "EQABYQ", // a term without times
		"IgAA",                // a text that has not been before
		"AgUBYQIC",            // more in common with the text before than that has
		"AgD/AWECAg",          // a text beyond the end
		"AgABYQEAAg",          // a time without a distance
		"AgABYf//////////AQI", // a time beyond all years
	} {
		text, _ := json.Marshal(terms)
		for _, blank := range []string{"", " "} {
			b := blank + `{"epoch":1,"nonce":"0","duration":"0s","terms":` + string(text) + `}`
			if r, err := driver.ParseRecord("n", "r", []byte(b)); err == nil || !strings.Contains(err.Error(), `"n"`) {
				t.Errorf("%s gave %+v, %v", b, r, err)
			}
		}
	}
}

// FuzzPast reads terms in any form, and what it has read again after they were written.
func FuzzPast(f *testing.F) {
	f.Add("AgABYey8uuXe16MGgol6DAABYgGCiXoC")
	f.Fuzz(func(t *testing.T, terms string) {
		text, _ := json.Marshal(terms)
		b := `{"epoch":1,"nonce":"0","duration":"0s","terms":` + string(text) + `}`
		r, err := driver.ParseRecord("n", "r", []byte(b))
		if err != nil {
			return
		}

		if _, err := json.Marshal(r.Past); err != nil {
			t.Fatalf("%s: %v", terms, err)
		}

		once := written(t, r.Past)
		if again := written(t, once); !reflect.DeepEqual(once, again) {
			t.Errorf("%s: %+v became %+v", terms, once, again)
		}
	})
}
