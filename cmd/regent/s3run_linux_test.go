package main

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sqlitewriter is a single-writer program, built once.
var sqlitewriter = sync.OnceValues(func() (string, error) { return build("sqlitewriter", "./internal/sqlitewriter") })

// writers are hosts that run one single-writer program under 'regent run', over one bucket.
type writers struct {
	t     *testing.T
	log   *s3Log
	hosts []*daemon
}

func startWriters(t *testing.T, s *s3Server) *writers {
	t.Helper()
	program, err := sqlitewriter()
	if err != nil {
		t.Fatal(err)
	}

	w := &writers{t: t, log: s.logged(t)}
	for _, name := range []string{"a", "b", "c", "d"} {
		db := filepath.Join(inMemory(t), "app.db") // of this host alone
		cmd := command(t, s3Env(name), "run", "app-db", "--node", name, "--store", w.log.address("locks"),
			"--startup-jitter-max", "0", "--lease-duration", "6s", "--heartbeat-interval", "1s",
			"--election-interval", "1s", "--takeover-delay", "300ms",
			"--", program, "-db", db, "-endpoint", "http://"+w.log.at, "-bucket", "bucket")
		w.hosts = append(w.hosts, launch(t, name, cmd, nil))
	}
	return w
}

// copies returns the requests by which programs upload their database, in the order in which they came.
func (w *writers) copies() []s3Request {
	return w.log.requests(func(r s3Request) bool {
		return r.method == http.MethodPut && strings.HasPrefix(r.key, "copies/")
	})
}

// writes waits until the host of a later epoch has uploaded several copies, and returns that host and the epoch.
func (w *writers) writes(after uint64) (*daemon, uint64) {
	w.t.Helper()
	var last s3Request
	waitFor(w.t, fmt.Sprintf("a program writes in an epoch after %d", after), func() bool {
		applied := slices.DeleteFunc(w.copies(), func(r s3Request) bool {
			return r.epoch <= after || r.status != http.StatusOK
		})
		if len(applied) >= 5 {
			last = applied[0]
		}
		return len(applied) >= 5
	})
	i := slices.IndexFunc(w.hosts, func(d *daemon) bool { return d.name == last.node })
	return w.hosts[i], last.epoch
}

// children returns the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // any thread may have started one
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for _, field := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(field)
			all = append(all, child)
		}
	}
	return all
}

// tree returns a process and all below it.
func tree(t *testing.T, pid int) []int {
	t.Helper()
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children(t, all[i])...)
	}
	return all
}

// ordered checks that no copy of an epoch was uploaded after one of a later epoch, that each epoch is one host's, and
// that the copies are numbered without a gap.
func (w *writers) ordered() {
	w.t.Helper()
	host := map[uint64]string{}
	newest := uint64(0)
	number := 0
	refused := 0
	unanswered := map[string]bool{} // uploads of a process that was killed before the answer: applied, or not
	for _, r := range w.copies() {
		switch {
		case r.status == http.StatusPreconditionFailed || r.status == http.StatusConflict:
			refused++
			continue
		case r.status != http.StatusOK:
			unanswered[r.key] = true
			continue
		}
		if host[r.epoch] == "" {
			host[r.epoch] = r.node
		}
		if r.node != host[r.epoch] {
			w.t.Errorf("%s and %s both wrote in epoch %d", host[r.epoch], r.node, r.epoch)
		}
		if newest = max(newest, r.epoch); r.epoch < newest {
			w.t.Errorf("%s wrote %s in epoch %d, after a write of epoch %d", r.node, r.key, r.epoch, newest)
		}
		number++
		want := copyName(number)
		for r.key != want && unanswered[want] {
			number++
			want = copyName(number)
		}
		if r.key != want {
			w.t.Errorf("%s wrote %s, want %s", r.node, r.key, want)
		}
	}
	w.t.Logf("%d copies, by epoch of %v; %d uploads were refused, %d not answered", number, host, refused,
		len(unanswered))
}

func copyName(number int) string { return fmt.Sprintf("copies/%08d.db", number) }

// alone checks that the writer of an epoch had sent its last upload before the next writer sent anything.
func (w *writers) alone(of uint64) {
	w.t.Helper()
	all := w.copies()
	last := slices.IndexFunc(all, func(r s3Request) bool { return r.epoch > of })
	for _, r := range all[last:] {
		if r.epoch <= of {
			w.t.Errorf("%s sent %s in epoch %d, after the first upload of epoch %d", r.node, r.key, r.epoch,
				all[last].epoch)
		}
	}
}

// rows returns the rows of the newest copy: the epoch of each, by its number.
func (w *writers) rows(s *s3Server) map[int]uint64 {
	w.t.Helper()
	applied := slices.DeleteFunc(w.copies(), func(r s3Request) bool { return r.status != http.StatusOK })
	in, err := os.Open(filepath.Join(s.dir, "bucket", applied[len(applied)-1].key))
	if err != nil {
		w.t.Fatal(err)
	}
	defer in.Close()
	content, err := io.ReadAll(in)
	if err != nil {
		w.t.Fatal(err)
	}

	db, err := sql.Open("sqlite", writeFile(w.t, filepath.Join(w.t.TempDir(), "newest.db"), string(content)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	found, err := db.Query("SELECT n, epoch FROM writes")
	if err != nil {
		w.t.Fatal(err)
	}
	defer found.Close()

	rows := map[int]uint64{}
	for found.Next() {
		var n int
		var epoch uint64
		if err := found.Scan(&n, &epoch); err != nil {
			w.t.Fatal(err)
		}
		rows[n] = epoch
	}
	return rows
}

// TestRunSingleWriterOnS3 is the recipe of docs/STORES.md: a program that must have one writer, on four hosts that
// share a bucket. The log before the server has every upload.
func TestRunSingleWriterOnS3(t *testing.T) {
	t.Parallel()
	s := startS3(t)
	w := startWriters(t, s)
	host, epoch := w.writes(0)

	step := func(name string, check func(t *testing.T)) {
		t.Run(name, func(inner *testing.T) {
			use := func(t *testing.T) {
				w.t = t
				w.log.t = t
				for _, d := range w.hosts {
					d.t = t
				}
			}
			use(inner)
			defer use(t)
			check(inner)
			w.ordered()
		})
	}

	step("after_a_kill_of_regent_run_another_writer_goes_on", func(*testing.T) {
		host.signal(syscall.SIGKILL)
		<-host.gone
		before := epoch
		host, epoch = w.writes(before)
		w.alone(before)
	})

	step("a_frozen_regent_loses_its_program_before_another_writer_begins", func(*testing.T) {
		host.signal(syscall.SIGSTOP) // the program goes on, until the reaper ends it at the deadline
		before := epoch
		host, epoch = w.writes(before)
		w.alone(before)
	})

	step("after_a_freeze_of_all_its_processes_a_writer_uploads_nothing_any_more", func(t *testing.T) {
		frozen := tree(t, host.cmd.Process.Pid)
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		thaw := sync.OnceFunc(func() {
			for _, pid := range frozen {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
		defer thaw()

		// The fourth host is alone now: it leads when the lease has expired.
		before := epoch
		_, epoch = w.writes(before)
		old := host
		thaw()
		waitFor(t, "the frozen host has ended its program", func() bool {
			return len(old.said("lost leadership")) > 0 || ended(old)
		})
	})

	step("no_row_that_was_uploaded_is_lost", func(t *testing.T) {
		for _, d := range w.hosts {
			_ = d.cmd.Process.Signal(syscall.SIGTERM) // most are gone already
			<-d.gone
		}
		rows := w.rows(s)
		for _, r := range w.copies() {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.key, "copies/"), ".db"))
			if r.status == http.StatusOK && rows[n] != r.epoch {
				t.Errorf("row %d was written in epoch %d, the newest copy has %d", n, r.epoch, rows[n])
			}
		}
	})
}

// ended reports whether a process is gone.
func ended(d *daemon) bool {
	select {
	case <-d.gone:
		return true
	case <-time.After(0):
		return false
	}
}
