package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
)

// pollSeen is the answer of /v1/polls/{name}.
type pollSeen struct {
	Name, Target, Source, State string
	Waiting                     int
	IntervalMs                  float64
	Counts                      map[string]uint64
	Results                     []orchestrate.Run
}

// holding is a web server that does not answer its first request before the test lets it.
type holding struct {
	*httptest.Server
	held    chan struct{} // closed when the first request is there
	release chan struct{} // the test closes it: the first request is answered
}

func newHolding(t *testing.T) *holding {
	h := &holding{held: make(chan struct{}), release: make(chan struct{})}
	first := make(chan struct{}, 1)
	first <- struct{}{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-first:
			close(h.held)
			select {
			case <-h.release:
			case <-r.Context().Done():
			}
		default:
		}
	}))
	t.Cleanup(h.Close)

	return h
}

// TestOneWorkerPerDirectory starts a second node on the files of another.
func TestOneWorkerPerDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := start(t, "a", "memory:", nil, "--data-dir", dir)
	second := command(t, nil, "serve", "--node", "a", "--store", "memory:", "--listen", "127.0.0.1:0", "--data-dir",
		dir)
	out, _ := second.CombinedOutput()

	if code := second.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"dataDir: journal " + filepath.Join(dir, "a", "journal") + ": another worker has it open",
		`another process is node "a" with this dataDir: stop it, or give this one another name (node)`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s does not say %s", out, want)
		}
	}

	a.signal(syscall.SIGKILL)
	<-a.gone
	start(t, "a", "memory:", nil, "--data-dir", dir).stop()
}

// TestUnusableData starts nodes on files that stay unusable. Their exit code keeps a service manager from restarting
// them.
func TestUnusableData(t *testing.T) {
	t.Parallel()

	for name, spoil := range map[string]func(dir string) error{
		"journal is a symbolic link": func(dir string) error {
			return os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "journal"))
		},
		"journal is a named pipe": func(dir string) error {
			return syscall.Mkfifo(filepath.Join(dir, "journal"), 0o600)
		},
		"read fence": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "epoch"), []byte("nonsense and more of it"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			dir := filepath.Join(data, "a")
			if err := errors.Join(os.Mkdir(dir, 0o700), spoil(dir)); err != nil {
				t.Fatal(err)
			}

			code, out := ends(t, command(t, nil, "serve", "--node", "a", "--store", "memory:", "--listen",
				"127.0.0.1:0", "--data-dir", data))
			if code != exitConfig || !strings.Contains(out, name) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestWorkerStops ends workers in the middle of a long check.
func TestWorkerStops(t *testing.T) {
	// slowly starts a leader, two workers, and a poll whose first check waits. It returns the worker and the slot.
	slowly := func(t *testing.T) (c *cluster, target *holding, worker, slot string) {
		t.Helper()
		target = newHolding(t)
		c = newCluster(t, sqliteStore(t),
			fmt.Sprintf("polls:\n  slow: {kind: http, target: %q, interval: 2s, timeout: 20s, concurrency: 10}\n",
				target.URL))
		c.polls, c.workers = 1, []string{"w1", "w2"}
		c.start("a", "--worker=false")

		for _, w := range c.workers {
			c.start(w, "--eligible=false")
		}

		<-target.held
		waitFor(c.t, "one check is under way, and no other", func() bool {
			n := 0
			for _, w := range c.workers {
				open := map[string]bool{}
				for _, l := range c.lines(w) {
					open[l.Begin] = true
					delete(open, l.ID)
				}

				delete(open, "")
				for id := range open {
					worker, slot = w, id
					n++
				}
			}

			return n == 1
		})

		return c, target, worker, slot
	}

	// ends returns how the attempts of a slot have ended, by worker and attempt.
	ends := func(c *cluster, slot string) map[string]string {
		all := map[string]string{}
		for _, w := range c.workers {
			for _, l := range c.lines(w) {
				if id, attempt, _ := strings.Cut(l.ID, "#"); id == slot {
					all[w+"#"+attempt] = l.Outcome
				}
			}
		}

		return all
	}

	t.Run("the_check_of_a_worker_that_was_killed_is_made_by_another", func(t *testing.T) {
		t.Parallel()
		c, _, victim, slot := slowly(t)
		d := c.nodes[victim]
		d.signal(syscall.SIGKILL)
		<-d.gone

		other := "w1"
		if victim == other {
			other = "w2"
		}

		waitFor(c.t, slot+" is made by "+other, func() bool { return ends(c, slot)[other+"#1"] == "done" })
		c.again(victim).until("/readyz", 200)
		c.goesOn(1)

		if got := ends(c, slot); len(got) != 2 || got[victim+"#"] != "interrupted" {
			t.Errorf("the slot ended as %v", got)
		}
		if r := c.check(); r.Cut != 1 {
			t.Errorf("%d runs were cut short", r.Cut)
		}
	})

	// stopped stops a worker that ends its check first. It has a second for that. If the check does not end in time,
	// stopped returns false.
	stopped := func(t *testing.T) bool {
		c, target, worker, slot := slowly(t)
		d := c.nodes[worker]
		term := d.learned(1)
		began := time.Now()
		d.signal(syscall.SIGTERM)

		for n := 0; ; n++ { // until it takes no task
			task := fmt.Sprintf(`{"election":"coordinator","leader":"a","epoch":1,"term":%q,"dispatchedMs":%d,`+
				`"tasks":[{"id":"any-%d","kind":"http","payload":{"target":%q}}]}`,
				term, time.Now().UnixMilli(), n, target.URL)
			code, _, answer, err := d.try("POST", "/v1/tasks", task)
			if err != nil || code == http.StatusServiceUnavailable &&
				strings.Contains(fmt.Sprint(answer["error"]), "stopping") {
				break
			}

			if code != http.StatusOK {
				t.Fatalf("%d %v", code, answer)
			}
		}

		close(target.release)
		late := time.Since(began)
		<-d.gone

		if late > 500*time.Millisecond && c.hurried() {
			t.Logf("its check ended only after %v", late)
			return false
		}

		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if got := ends(c, slot); len(got) != 1 || got[worker+"#"] != "done" {
			t.Errorf("the slot ended as %v", got)
		}

		seen(c.nodes["a"], "/v1/polls/slow", func(p pollSeen) bool {
			for _, r := range p.Results {
				if r.Slot == slot {
					return r.Worker == worker && r.Outcome == "ok" && r.Attempts == 1
				}
			}

			return false
		})
		c.again(worker).until("/readyz", 200)
		c.goesOn(1)

		if r := c.check(); r.Cut != 0 {
			t.Errorf("%d runs were cut short", r.Cut)
		}

		return true
	}

	t.Run("a_worker_that_is_began_to_stop_ends_its_check_first", func(t *testing.T) {
		t.Parallel()

		for range 5 {
			if stopped(t) {
				return
			}
		}

		t.Error("it never had the time")
	})

	t.Run("a_check_that_takes_too_long_for_that_is_made_by_another", func(t *testing.T) {
		t.Parallel()
		c, _, worker, slot := slowly(t)
		if code := c.nodes[worker].stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		c.nodes[worker].await("stopping with tasks under way")
		waitFor(c.t, slot+" has ended at both", func() bool {
			got := ends(c, slot)
			return len(got) == 2 && got[worker+"#"] == "interrupted"
		})
		c.again(worker).until("/readyz", 200)
		c.goesOn(1)

		if r := c.check(); r.Cut != 1 {
			t.Errorf("%d runs were cut short", r.Cut)
		}
	})
}
