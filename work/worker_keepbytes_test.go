package work

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// large is a result of 60 KB.
func large() json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", 60_000) + `"`) }

// sum returns how many bytes the worker's results take, counted one by one.
func sum(w *Worker) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, r := range w.ended {
		n += r.result.size()
	}
	return n
}

// asker is a leader that asks for results.
type asker struct {
	session string
	after   uint64
}

// hear makes the leader receive all results.
func (a *asker) hear(t *testing.T, w *Worker) {
	t.Helper()
	for more := true; more; {
		body := fmt.Sprintf(`{"election":"","leader":"x","epoch":1,"session":%q,"after":%d}`, a.session, a.after)
		rec := direct(w, "/v1/tasks/results", body)
		var r report
		if err := json.Unmarshal(rec.Body.Bytes(), &r); err != nil || rec.Code != 200 {
			t.Fatal(rec.Code, err)
		}
		more = r.More
		a.session = r.Session
		a.after = r.Next
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.unreportedBytes != 0 || w.reported != w.lastLocked() {
		t.Fatalf("%d bytes are not reported, %d of %d results", w.unreportedBytes, w.reported, w.lastLocked())
	}
}

const limit = 4 << 20

func TestKeepBytes(t *testing.T) {
	t.Run("large_results_are_bounded_in_memory_and_in_the_journal", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, began := journaled(t, path, nil)
		w.KeepBytes = limit
		data := large()
		w.handlers["do"] = func(_ context.Context, task Task) (json.RawMessage, error) {
			began <- task.ID
			return append(json.RawMessage(nil), data...), nil
		}

		leader := new(asker)
		largest := int64(0)
		const tasks = 600 // 36 MB
		for i := range tasks {
			if code := deliver(w, fmt.Sprintf("t%d", i)); code != 200 {
				t.Fatal(code)
			}

			if i%20 == 19 { // 1.2 MB are not reported
				settled(t, w)
				leader.hear(t, w)
				if info, err := os.Stat(path); err == nil {
					largest = max(largest, info.Size())
				}
				if got, counted := sum(w), w.Stats().KeptBytes; got > limit || got != counted {
					t.Fatalf("after %d it keeps %d bytes, and says %d", i, got, counted)
				}
			}
		}

		settled(t, w)
		if most := int64(maxJournal + 4<<20); largest > most {
			t.Errorf("the journal had %d bytes", largest)
		}

		if s := w.Stats(); s.Dropped < tasks-limit/60_000-1 {
			t.Errorf("%d results were dropped", s.Dropped)
		}

		// Each is still known, so that none runs twice.
		if len(began) != tasks {
			t.Fatalf("%d tasks began", len(began))
		}

		rec := direct(w, "/v1/tasks", `{"election":"","leader":"x","epoch":1,"dispatchedMs":1,`+
			`"tasks":[{"id":"t1","kind":"do"},{"id":"t599","kind":"do"}]}`)
		var v receipt
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || len(v.Results) != 2 || len(began) != tasks {
			t.Fatalf("%v, %d results, %d tasks began", err, len(v.Results), len(began))
		}

		if o := v.Results[0]; o.Outcome != Done || len(o.Data) != 0 ||
			!strings.Contains(o.Error, "keeps 4194304 bytes") {
			t.Errorf("the old one: %+v", o)
		}

		if o := v.Results[1]; o.Outcome != Done || len(o.Data) != 60_002 || o.Error != "" {
			t.Errorf("the new one: %s, %d bytes, %s", o.Outcome, len(o.Data), o.Error)
		}

		_ = w.Close()

		// After a restart it is the same.
		again := &Worker{Journal: path, KeepBytes: limit}
		again.Handle("do", w.handlers["do"])
		if err := again.Open(); err != nil {
			t.Fatal(err)
		}
		defer again.Close()

		if got := sum(again); got > limit || got < limit/2 {
			t.Errorf("it keeps %d bytes after a restart", got)
		}

		if deliver(again, "t1", "t599"); again.Stats().Duplicates != 2 {
			t.Errorf("%+v", again.Stats())
		}
	})

	t.Run("a_journal_that_has_grown_large_is_read_within_the_bound_and_written_anew", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}

		var line []byte
		for i := range 1000 { // 60 MB
			o := wireResult{ID: fmt.Sprintf("t%d", i), Kind: "do", Epoch: 1, Outcome: Done, Data: large(), BeganMs: 1}
			line = append(appendResult(line[:0], &o), '\n')
			if _, err := f.Write(line); err != nil {
				t.Fatal(err)
			}
		}

		_ = f.Close()

		h, err := readJournal(path, 10_000, limit)
		kept := 0
		for _, o := range h.ended {
			kept += o.size()
		}

		if err != nil || len(h.ended) != 1000 || kept > limit || kept != h.keptBytes {
			t.Errorf("%v: %d results of %d bytes, %d counted", err, len(h.ended), kept, h.keptBytes)
		}

		h = history{}

		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		w := &Worker{Journal: path, KeepBytes: limit}
		w.Handle("do", func(context.Context, Task) (json.RawMessage, error) { return nil, nil })

		if err := w.Open(); err != nil {
			t.Fatal(err)
		}
		defer w.Close()

		took := time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); more > 8*limit {
			t.Errorf("it takes %d bytes more", more)
		}

		t.Logf("60 MB read in %v", took)
		if len(w.ended) != 1000 || sum(w) > limit {
			t.Errorf("%d results of %d bytes", len(w.ended), sum(w))
		}

		deliver(w, "new")
		settled(t, w)
		if info, err := os.Stat(path); err != nil || info.Size() > 4*limit {
			t.Errorf("%v, %v", info, err)
		}
	})
}

func TestKeepBytesAdmission(t *testing.T) {
	t.Run("payloads_that_wait_are_bounded", func(t *testing.T) {
		hold := make(chan struct{})
		w := &Worker{Concurrency: 1, KeepBytes: 1 << 20}
		w.Handle("do", func(context.Context, Task) (json.RawMessage, error) { <-hold; return nil, nil })
		defer w.Close()

		busy := 0
		for i := range 40 { // 2.4 MB
			body := fmt.Sprintf(`{"election":"","leader":"x","epoch":1,"dispatchedMs":1,`+
				`"tasks":[{"id":"t%d","kind":"do","payload":%s}]}`, i, large())
			switch code := direct(w, "/v1/tasks", body).Code; code {
			case 200:
			case 429:
				busy++
			default:
				t.Fatal(code)
			}
		}

		if taken := 40 - busy; taken < 16 || taken > 18 {
			t.Errorf("%d tasks were taken", taken)
		}

		close(hold)
		settled(t, w)
		if w.payloadBytes != 0 || deliver(w, "again") != 200 {
			t.Errorf("%d bytes are left", w.payloadBytes)
		}
	})

	t.Run("results_that_wait_for_a_leader_are_not_dropped_for_others", func(t *testing.T) {
		w := &Worker{KeepBytes: 1 << 20}
		w.Handle("do", func(context.Context, Task) (json.RawMessage, error) { return large(), nil })
		defer w.Close()

		taken := 0
		for deliver(w, fmt.Sprintf("t%d", taken)) == 200 {
			settled(t, w)
			if taken++; taken > 100 {
				t.Fatal("it takes tasks for ever")
			}
		}

		if s := w.Stats(); s.Dropped != 0 || taken < 8 {
			t.Errorf("%d tasks were taken, %d results dropped", taken, s.Dropped)
		}

		new(asker).hear(t, w)
		if deliver(w, "again") != 200 {
			t.Error("it takes no task after its results were reported")
		}

		settled(t, w)
	})
}
