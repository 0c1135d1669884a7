package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/health"
)

// TestDuties runs the duties of a leader: those of every leader, and programs of its user.
func TestDuties(t *testing.T) {
	// duty returns a configuration file with one duty, a script that writes to $1.
	duty := func(script, out string) string {
		return fmt.Sprintf("duties:\n  mine:\n    command: [sh, -c, %q, mine, %q]\n", script, out)
	}
	find := func(f api.Figures, name string) regent.DutyState {
		for _, d := range f.Duties {
			if d.Name == name {
				return d
			}
		}

		return regent.DutyState{}
	}
	running := func(f api.Figures) (names []string) {
		for _, d := range f.Duties {
			if d.Running {
				names = append(names, d.Name)
			}
		}

		return names
	}
	all := "cluster-health polls retirement mine"
	lines := func(path string) []string {
		b, _ := os.ReadFile(path)
		return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	}

	t.Run("C05_the_winner_runs_all_duties_and_after_its_death_the_next_one_does_once_the_first_program_is_dead",
		func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")

			// It checks whether an earlier one lives, and then writes for as long as it lives itself.
			script := `
for pid in $(sed -n 's/^begin .* //p' "$1" 2>/dev/null); do
	case "$(cat /proc/$pid/stat 2>/dev/null)" in
	"" | *") Z "*) ;; # one that has ended may not be reaped yet
	*) echo "alive $pid $(cat /proc/$pid/stat)" >>"$1" ;;
	esac
done
echo "begin $REGENT_EPOCH $REGENT_NODE $$" >>"$1"
trap '' TERM
while :; do echo "run $REGENT_EPOCH" >>"$1"; sleep 0.02; done`
			c := newCluster(t, sqliteStore(t), everySecond(1, webTarget(t))+duty(script, out))
			a := c.start("a")
			a.until("/leader", 200)
			b := c.start("b")
			b.until("/standby", 200)
			runs := func(d *daemon) {
				seen(d, "/v1/metrics", func(f api.Figures) bool { return strings.Join(running(f), " ") == all })
				d.happens(health.EventHealthCheck, func(regent.Event) bool { return true })
				seen(d, "/v1/polls/p0", func(p pollSeen) bool { return len(p.Results) > 0 })
			}
			runs(a)

			if f := b.figures(); len(running(f)) != 0 || len(f.Duties) != 4 {
				t.Errorf("the standby runs %+v", f.Duties)
			}

			a.signal(syscall.SIGKILL)
			killed := time.Now()
			b.until("/leader", 200)
			runs(b)
			t.Logf("the duties run %v after the leader was killed", time.Since(killed))

			waitFor(c.t, "the second program runs", func() bool {
				return strings.Contains(strings.Join(lines(out), "\n"), "run 2")
			})

			if code := b.stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}

			epoch := "1"
			for _, l := range lines(out) {
				switch f := strings.Fields(l); {
				case f[0] == "alive":
					t.Errorf("when the second program began, the first was alive: %s", l)
				case f[0] == "begin" && f[1] != "1":
					epoch = f[1]
					if f[2] != "b" {
						t.Errorf("it is %q", l)
					}
				case f[1] != epoch:
					t.Errorf("%q after the program of epoch %s had begun", l, epoch)
				}
			}

			if epoch != "2" {
				t.Errorf("the last program is of epoch %s", epoch)
			}
		})

	t.Run("C05_C06_on_a_graceful_stop_the_program_ends_first", func(t *testing.T) {
		t.Parallel()
		out := filepath.Join(t.TempDir(), "out")
		script := `trap 'echo "end $REGENT_EPOCH" >>"$1"; exit 0' TERM; echo "begin $REGENT_EPOCH" >>"$1"; while :; ` +
			`do sleep 0.02; done`
		c := newCluster(t, sqliteStore(t), duty(script, out))
		a := c.start("a")
		waitFor(c.t, "the program runs", func() bool { return lines(out)[0] == "begin 1" })
		b := c.start("b")
		b.until("/standby", 200)

		if code := a.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		waitFor(c.t, "the second program runs", func() bool { return len(lines(out)) == 3 })
		b.stop()
		if got := strings.Join(lines(out), ", "); got != "begin 1, end 1, begin 2, end 2" {
			t.Errorf("it was %s", got)
		}
	})

	t.Run("C05_a_program_that_fails_is_run_again_and_counted", func(t *testing.T) {
		t.Parallel()
		out := filepath.Join(t.TempDir(), "out")
		script := `echo begin >>"$1"; if [ "$(wc -l <"$1")" -lt 3 ]; then exit 3; fi; while :; do sleep 0.1; done`
		c := newCluster(t, sqliteStore(t), duty(script, out))
		a := c.start("a")
		f := seen(a, "/v1/metrics", func(f api.Figures) bool {
			d := find(f, "mine")
			return d.Running && d.Failures == 2
		})
		if d := find(f, "mine"); d.InARow != 2 || !strings.Contains(d.LastError, "exit code 3") ||
			f.DutyFailures != 2 || strings.Join(running(f), " ") != all {
			t.Errorf("%+v", f.Duties)
		}

		waitFor(c.t, "it has said so twice", func() bool {
			return len(a.said(`level=WARN msg=duty:failed .*duty=mine`)) == 2
		})
		waitFor(c.t, "it is begun for the third time", func() bool { return len(lines(out)) == 3 })

		if body := a.until("/leader", 200); body["epoch"] != 1.0 {
			t.Errorf("%v", body)
		}
		a.stop()
	})

	t.Run("C05_P03_a_leader_whose_program_keeps_failing_hands_over", func(t *testing.T) {
		t.Parallel()
		out := filepath.Join(t.TempDir(), "out")
		script := `echo "$REGENT_NODE $REGENT_EPOCH" >>"$1"; if [ "$REGENT_NODE" = a ]; then exit 1; fi; while :; do ` +
			`sleep 0.1; done`
		c := newCluster(t, sqliteStore(t), duty(script, out))
		a := c.start("a")
		a.until("/leader", 200)
		b := c.start("b")
		b.until("/standby", 200)
		stop := neverTwo(t, a, b)

		if got := a.await("lost leadership.*"); !strings.Contains(got, "reason=unhealthy") {
			t.Errorf("a says %q", got)
		}

		b.until("/leader", 200)
		seen(b, "/v1/metrics", func(f api.Figures) bool { return strings.Join(running(f), " ") == all })
		waitFor(c.t, "its program has begun", func() bool { return len(lines(out)) > 5 })
		stop()

		if f := a.figures(); find(f, "mine").Failures != 5 || len(running(f)) != 0 {
			t.Errorf("%+v", f.Duties)
		}
		if got := strings.Join(lines(out), ", "); got != "a 1, a 1, a 1, a 1, a 1, b 2" {
			t.Errorf("it was run as %s", got)
		}

		a.stop()
		b.stop()
	})
}
