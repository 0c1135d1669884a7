package work

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/jsonscan"
)

// seeds are bodies of requests and answers, well-formed ones and others.
func seeds() (all []string) {
	b := appendBatch(nil, "seat", "a", regent.Token{Epoch: 7, Term: "T1"}, time.UnixMilli(1700000000000))
	b = appendTask(b, &Task{ID: "x", Kind: "do", Timeout: time.Second, Idempotent: true,
		Payload: json.RawMessage(`{"a":[1,-2.5e+3,"\u00e4\n",true,null,{}]}`)}, "S")
	b = appendTask(b, &Task{ID: "y", Kind: "do"}, "")
	all = append(all, string(append(b, endBatch...)),
		string(append(appendBatch(nil, "", "", regent.Token{Epoch: 1}, time.UnixMilli(0)), endBatch...)))
	all = append(all, `{"session":"S"}`, `{"session":"S","refused":[{"id":"x","why":"busy"}]}`,
		`{"session":"S","next":0,"running":[],"results":[]}`)
	p := page{next: 3, more: true, initial: true, running: []string{"x", "y"}, results: []*run{
		{result: wireResult{ID: "x", Kind: "do", Epoch: 1, Outcome: Done, Data: json.RawMessage(`[1]`), BeganMs: 5,
			TookUs: 6}},
		{result: wireResult{ID: "ö", Kind: "do", Outcome: Failed, Error: "no \"paper\""}},
		{result: wireResult{ID: "z", Kind: "do", Outcome: Expired, Error: "late"}},
	}}

	all = append(all, string(p.append(nil, "S")))
	p.results = p.results[:1]
	all = append(all, string(p.append(nil, "S")))

	return append(all, ``, `{}`, `[]`, `{"election":"seat","epoch":01,"tasks":[]}`, ` {"session" : "S"} `,
		`{"election":"a","leader":"","epoch":18446744073709551615,"dispatchedMs":-1,`+
			`"tasks":[{"id":"a","kind":"b","payload": 1 }]}`,
		`"`, `{"a":`, strings.Repeat("[", 200)+strings.Repeat("]", 200), `-`, `1.`, `1e`, `"\u12"`, `"\x"`, `tru`,
		`{"a" :1}`, `[1,]`, `{1:2}`, `01`, "\"\x01\"")
}

// FuzzScan compares both decoders: whatever the quick one can read, encoding/json reads with the same result.
func FuzzScan(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(quick, slow any, parsed bool) {
			if !parsed {
				return
			}

			if err := json.Unmarshal(b, slow); err != nil {
				t.Fatalf("%q was read, but: %v", b, err)
			}

			if !reflect.DeepEqual(quick, slow) {
				t.Fatalf("%q was read as %+v, not %+v", b, quick, slow)
			}
		}

		var b1, b2 batch
		same(&b1, &b2, b1.parse(b))
		var v1, v2 receipt
		same(&v1, &v2, v1.parse(b))
		var r1, r2 report
		same(&r1, &r2, r1.parse(b))

		if jsonscan.Compact(b) && !json.Valid(b) {
			t.Fatalf("%q is no JSON", b)
		}

		if jsonscan.Valid(b) != json.Valid(b) {
			t.Fatalf("%q: JSON or not", b)
		}
	})
}

func TestScan(t *testing.T) {
	t.Run("what_this_package_writes_the_quick_decoder_reads", func(t *testing.T) {
		all := seeds()
		for i, into := range map[int]func([]byte) bool{0: new(batch).parse, 1: new(batch).parse, 2: new(receipt).parse,
			4: new(report).parse, 6: new(report).parse} {
			if !into([]byte(all[i])) {
				t.Errorf("not read: %s", all[i])
			}
		}

		for i, want := range map[int]regent.Token{0: regent.NewToken(7, "T1"), 1: regent.NewToken(1, "")} {
			var b batch
			if b.parse([]byte(all[i])); b.token() != want {
				t.Errorf("%s is read as %v", all[i], b.token())
			}
		}

		if new(batch).parse([]byte(all[10])) || new(report).parse([]byte(all[5])) {
			t.Error("escapes are not its business")
		}
	})
}

func echo(_ context.Context, t Task) (json.RawMessage, error) { return t.Payload, nil }

// FuzzReceive sends anything to a worker, which must go on working.
func FuzzReceive(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}

	f.Fuzz(func(t *testing.T, body []byte, question bool) {
		w := &Worker{Election: "seat"}
		w.Handle("do", echo)
		path := "/v1/tasks"
		if question {
			path += "/results"
			if json.Unmarshal(body, &struct{ WaitMs int64 }{}) == nil &&
				strings.Contains(strings.ToLower(string(body)), "wait") {
				t.Skip("it would wait")
			}
		}

		rec := direct(w, path, string(body))
		if rec.Code >= 500 && rec.Code != http.StatusServiceUnavailable {
			t.Errorf("answered %d: %s", rec.Code, rec.Body)
		}

		if !json.Valid(rec.Body.Bytes()) {
			t.Errorf("answered %q", rec.Body)
		}

		if highest, _ := w.Fence.Highest(); highest.Epoch < 1<<61 {
			good := appendTask(appendBatch(nil, "seat", "x", regent.Token{Epoch: highest.Epoch + 1}, time.Now()),
				&Task{ID: "good", Kind: "do"}, "")
			if rec := direct(w, "/v1/tasks", string(append(good, endBatch...))); rec.Code != http.StatusOK {
				t.Errorf("after %q: %d %s", body, rec.Code, rec.Body)
			}
		}

		check(t, w.Close())
		if rec := direct(w, "/v1/tasks/results", `{"election":"seat","epoch":18446744073709551615}`); !json.Valid(
			rec.Body.Bytes()) {
			t.Errorf("after %q: %s", body, rec.Body)
		}
	})
}

// BenchmarkScan reads a request of 128 tasks and a page of 128 results, with the quick decoder and with encoding/json.
func BenchmarkScan(b *testing.B) {
	request := appendBatch(nil, "seat", "node-a", regent.Token{Epoch: 7, Term: "T1"}, time.UnixMilli(1700000000000))
	p := page{next: 128}
	for i := range 128 {
		id := "poll/" + strconv.Itoa(1700000000000+i)
		task := Task{ID: id, Kind: "http", Timeout: time.Second,
			Payload: json.RawMessage(`{"target":"http://10.0.0.1:8080/health"}`)}
		request = appendTask(request, &task, "")
		p.results = append(p.results, &run{result: wireResult{ID: id, Kind: "http", Epoch: 7, Outcome: Done,
			Data: json.RawMessage(`{"ok":true,"latency":1200000}`), BeganMs: 1700000000000, TookUs: 1200}})
	}

	request = append(request, endBatch...)
	answer := p.append(nil, "S")

	for _, c := range []struct {
		name string
		read func() bool
	}{
		{"request/quick", func() bool { return new(batch).parse(request) }},
		{"request/encoding_json", func() bool { return json.Unmarshal(request, new(batch)) == nil }},
		{"results/quick", func() bool { return new(report).parse(answer) }},
		{"results/encoding_json", func() bool { return json.Unmarshal(answer, new(report)) == nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !c.read() {
					b.Fatal("not read")
				}
			}
		})
	}
}
