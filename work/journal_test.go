package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// direct posts to a worker without a network.
func direct(w *Worker, path, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return rec
}

func deliver(w *Worker, ids ...string) int {
	var tasks []string
	for _, id := range ids {
		tasks = append(tasks, fmt.Sprintf(`{"id":%q,"kind":"do"}`, id))
	}
	return direct(w, "/v1/tasks", fmt.Sprintf(`{"election":"","leader":"x","epoch":1,"dispatchedMs":1,"tasks":[%s]}`,
		strings.Join(tasks, ","))).Code
}

// journaled returns a worker whose results are data, and a channel that receives the tasks that start.
func journaled(t *testing.T, path string, data json.RawMessage) (*Worker, chan string) {
	t.Helper()
	began := make(chan string, 1<<16)
	w := &Worker{Journal: path, Concurrency: 1, Queue: 1 << 16}
	w.Handle("do", func(_ context.Context, t Task) (json.RawMessage, error) { began <- t.ID; return data, nil })
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = w.Close() })
	return w, began
}

// settled waits until nothing is open.
func settled(t *testing.T, w *Worker) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		w.mu.Lock()
		open, news := w.open, w.changedLocked()
		w.mu.Unlock()

		if open == 0 {
			return
		}

		select {
		case <-news:
		case <-time.After(time.Until(end)):
			t.Fatalf("%d tasks are open", open)
		}
	}
}

func TestJournal(t *testing.T) {
	t.Run("a_line_that_was_cut_short_damages_neither_the_one_before_nor_the_one_after", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, _ := journaled(t, path, nil)
		deliver(w, "a")
		settled(t, w)
		check(t, w.Close())
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		check(t, err)

		_, err = f.WriteString(`{"begin":"torn","ki`)
		check(t, err)
		check(t, f.Close())
		w, began := journaled(t, path, nil)
		deliver(w, "a", "torn", "b")
		settled(t, w)

		check(t, w.Close())
		if len(began) != 2 {
			t.Errorf("%d tasks ran", len(began))
		}

		h, err := readJournal(path, 10, 1<<20)
		if err != nil || len(h.ended) != 3 || len(h.unfinished) != 0 {
			t.Errorf("history %+v, %v", h, err)
		}
	})

	t.Run("lines_that_are_damaged_are_counted_and_reported_at_each_opening_but_not_a_torn_one", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		line := func(id string) string { return `{"begin":"` + id + `","kind":"do","epoch":1}` + "\n" }
		check(t, os.WriteFile(path, []byte(line("a")+"garbage\n"+line("b")+"{}\n"+line("c")+`{"begin":"torn`), 0o600))
		for range 2 {
			var out bytes.Buffer
			w := &Worker{Election: "seat", Journal: path, Log: slog.New(slog.NewTextHandler(&out, nil))}
			check(t, w.Open())
			check(t, w.Close())
			if n := strings.Count(out.String(), "level=WARN"); n != 1 ||
				!strings.Contains(out.String(), "journal="+path+" lines=2 first=2\n") {
				t.Errorf("it logs %s", out.String())
			}
		}

		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte("torn")) {
			t.Errorf("it is left as %s, %v", b, err)
		}
	})

	t.Run("a_large_one_that_lacks_only_its_last_line_break_keeps_every_result", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		var b bytes.Buffer
		results := 0
		for ; b.Len() <= maxJournal; results++ {
			o := wireResult{ID: fmt.Sprint("t", results), Kind: "do", Epoch: 1, Outcome: Done, Data: large()}
			b.Write(append(appendResult(nil, &o), '\n'))
		}
		check(t, os.WriteFile(path, bytes.TrimSuffix(b.Bytes(), []byte("\n")), 0o600))

		for range 2 {
			w := &Worker{Election: "seat", Journal: path}
			check(t, w.Open())
			if len(w.ended) != results {
				t.Errorf("it knows %d of %d results", len(w.ended), results)
			}
			check(t, w.Close())
		}
	})

	t.Run("one_that_another_worker_uses_is_refused_until_that_has_ended", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, _ := journaled(t, path, nil)
		deliver(w, "a")
		settled(t, w)
		second := &Worker{Election: "seat", Journal: path}
		if err := second.Open(); err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "another worker") {
			t.Errorf("it is opened with %v", err)
		}

		if err := second.Close(); err == nil || !strings.Contains(err.Error(), "another worker") {
			t.Errorf("it is closed with %v", err)
		}

		check(t, w.Close())
		w, began := journaled(t, path, nil)
		deliver(w, "a")
		settled(t, w)
		check(t, w.Close())

		if len(began) != 0 {
			t.Error("it ran again")
		}
	})
}

func TestJournalRewrite(t *testing.T) {
	t.Run("results_of_several_lines_are_one_line_of_it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, _ := journaled(t, path, json.RawMessage("[\n{\"begin\":\"forged\"}\n]"))
		deliver(w, "a")
		settled(t, w)
		check(t, w.Close())
		h, err := readJournal(path, 10, 1<<20)
		if err != nil || len(h.ended) != 1 || string(h.ended[0].Data) != `[{"begin":"forged"}]` ||
			len(h.unfinished) != 0 {
			t.Errorf("history %+v, %v", h, err)
		}
	})

	t.Run("a_rewritten_one_keeps_every_task_that_is_remembered_and_every_one_that_runs", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		large, _ := json.Marshal(strings.Repeat("x", 200_000))
		hold := make(chan struct{})
		w := &Worker{Journal: path, Concurrency: 2, Queue: 1000, Keep: 20}
		w.Handle("do", func(_ context.Context, t Task) (json.RawMessage, error) {
			if t.ID == "long" {
				<-hold
			}
			return large, nil
		})

		deliver(w, "long")
		var last int64
		shrunk := 0
		for i := range 150 { // 30 MB
			deliver(w, fmt.Sprint("t", i))
			for w.Stats().Outcomes[Done] < uint64(i+1) {
				<-time.After(50 * time.Microsecond)
			}

			info, err := os.Stat(path)
			check(t, err)
			if info.Size() < last {
				shrunk++
			}

			last = info.Size()
		}

		if shrunk == 0 || last > 2*maxJournal {
			t.Errorf("rewritten %d times, %d bytes", shrunk, last)
		}

		if len(w.runs) > 20+20/4+2 || len(w.ended) > 20+20/4+1 {
			t.Errorf("%d tasks are in memory, %d ended", len(w.runs), len(w.ended))
		}

		// It dies here.
		b, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path+".copy", b, 0o600))
		close(hold)
		check(t, w.Close())

		again, began := journaled(t, path+".copy", nil)
		var ids []string
		for i := 130; i < 150; i++ {
			ids = append(ids, fmt.Sprint("t", i))
		}

		deliver(again, append(ids, "long", "new")...)
		settled(t, again)
		if len(began) != 1 || <-began != "new" {
			t.Error("what has run ran again")
		}

		if r := again.runs["long"]; r == nil || r.result.Outcome != Interrupted {
			t.Errorf("the long one: %+v", r)
		}

		if _, err := os.Stat(path + ".new"); err == nil {
			t.Error("a file is left behind")
		}
	})
}

func TestJournalFailures(t *testing.T) {
	t.Run("a_disk_that_is_full_fails_tasks_before_they_run_and_is_made_good_afterwards", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}

		path := filepath.Join(t.TempDir(), "journal")
		w, began := journaled(t, path, nil)
		deliver(w, "before")
		settled(t, w)
		<-began
		check(t, w.journal.file.Close())

		w.journal.file = full
		if code := deliver(w, "during"); code != 200 {
			t.Errorf("answered %d", code)
		}

		settled(t, w)
		if r := w.runs["during"]; r.result.Outcome != Failed || !strings.Contains(r.result.Error, "write journal") ||
			len(began) != 0 {
			t.Errorf("it ended %+v", r.result)
		}

		w.mu.Lock()
		w.unwritable = time.Time{} // some time has passed
		w.mu.Unlock()
		deliver(w, "after")
		settled(t, w)
		check(t, w.Close())
		h, err := readJournal(path, 10, 1<<20)
		if err != nil || len(h.ended) != 3 || h.ended[1].ID != "during" || len(h.unfinished) != 0 {
			t.Errorf("history %+v, %v", h, err)
		}
	})

	t.Run("one_that_cannot_be_rewritten_stays_in_use", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, _ := journaled(t, path, nil)
		check(t, os.MkdirAll(filepath.Join(path+".new", "in the way"), 0o700))
		w.journal.limit = 0
		deliver(w, "a")
		deliver(w, "b")
		settled(t, w)
		check(t, w.Close())
		if h, err := readJournal(path, 10, 1<<20); err != nil || len(h.ended) != 2 {
			t.Errorf("history %+v, %v", h, err)
		}
	})

	t.Run("a_file_in_the_place_of_the_new_one_is_replaced_and_a_link_is_not_followed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		w, _ := journaled(t, path, nil)
		check(t, os.WriteFile(path+".victim", []byte("untouched"), 0o600))
		check(t, os.Symlink(path+".victim", path+".new"))
		w.journal.limit = 0
		deliver(w, "a")

		settled(t, w)
		check(t, w.Close())
		if b, err := os.ReadFile(path + ".victim"); err != nil || string(b) != "untouched" {
			t.Errorf("%q, %v", b, err)
		}

		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("the journal is %v, %v", info, err)
		}
	})

	t.Run("of_a_long_one_the_last_are_kept_and_an_id_that_ran_twice_is_known_until_its_second_end_is_forgotten",
		func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			var b []byte
			ids := []string{"twice"}
			for i := range 100 {
				ids = append(ids, fmt.Sprint("t", i))
			}

			for _, id := range append(ids, "twice") {
				b = append(appendResult(appendBegin(b, &Task{ID: id, Kind: "do", Epoch: 1}),
					&wireResult{ID: id, Kind: "do", Outcome: Done}), '\n')
			}

			check(t, os.WriteFile(path, b, 0o600))
			h, err := readJournal(path, 10, 1<<20)
			if err != nil || len(h.ended) != 10 || h.ended[9].ID != "twice" || h.ended[0].ID != "t91" ||
				len(h.unfinished) != 0 {
				t.Errorf("history %+v, %v", h, err)
			}

			w := &Worker{Journal: path, Keep: 101}
			check(t, w.Open())
			for i := range 26 { // until the first one is dropped
				w.rememberLocked(&run{ended: true, result: wireResult{ID: fmt.Sprint("more", i)}})
			}

			if w.base == 1 || w.runs["twice"] == nil {
				t.Errorf("base %d, %v", w.base, w.runs["twice"])
			}

			check(t, w.Close())
		})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
