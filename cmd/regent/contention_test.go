package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
)

// TestHeartbeatFigures checks what a node reports about its own heartbeats.
func TestHeartbeatFigures(t *testing.T) {
	timing := []string{"--heartbeat-interval", "200ms", "--lease-duration", "20s"}

	// freeze suspends a process for longer than two heartbeats of a node and shorter than its lease, and waits until
	// the node has made some more.
	freeze := func(d *daemon, what *os.Process) {
		d.t.Helper()

		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := what.Signal(sig); err != nil {
				d.t.Fatal(err)
			}
			if sig == syscall.SIGSTOP {
				<-time.After(time.Second)
			}
		}

		n := d.figures().Heartbeats
		seen(d, "/v1/metrics", func(f api.Figures) bool { return f.Heartbeats > n+3 })
	}

	// contends freezes a process twice, and checks what the node reports about it.
	contends := func(a *daemon, what *os.Process) {
		t := a.t
		t.Helper()
		freeze(a, what)
		line := a.await("level=WARN msg=contention:detected.*")
		number := func(name string) float64 {
			m := regexp.MustCompile(" " + name + `=([\d.]+)`).FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("no %s in %q", name, line)
			}

			f, _ := strconv.ParseFloat(m[1], 64)
			return f
		}
		duration := number("durationMs")
		expected := number("expectedMs")

		ratio := number("ratio")
		if expected != 200 || duration < 400 || ratio < 2 || ratio < duration/expected-0.01 ||
			ratio > duration/expected+0.01 {
			t.Errorf("it says %q", line)
		}

		n := a.figures().ContentionEvents
		if n == 0 {
			t.Error("it is not counted")
		}

		freeze(a, what)
		if m := a.figures().ContentionEvents; m <= n {
			t.Errorf("%d were counted, and then %d", n, m)
		}
		var last time.Time
		for _, line := range a.said("contention:detected") {
			text, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			at, err := time.Parse(time.RFC3339Nano, text)
			if since := at.Sub(last); err != nil || since < 29*time.Second { // a line is written after its event
				t.Errorf("it was logged twice within %v: %q, %v", since, line, err)
			}
			last = at
		}
		if body := a.until("/leader", 200); body["epoch"] != 1.0 {
			t.Errorf("the term was lost: %v", body)
		}

		a.stop()
	}

	t.Run("E05_E06_a_store_that_hangs_is_contention_logged_once_and_counted_each_time", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, timing...)
		a.until("/leader", 200)
		contends(a, r.cmd.Process)
	})

	t.Run("E05_E06_and_so_is_a_node_that_was_frozen", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", "memory:", nil, timing...)
		a.until("/leader", 200)
		contends(a, a.cmd.Process)
	})

	t.Run("E07_without_detection_there_is_neither_event_nor_count", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, append(timing, "--contention-detection-enabled=false")...)
		a.until("/leader", 200)
		freeze(a, a.cmd.Process)
		freeze(a, r.cmd.Process)

		if n, lines := a.figures().ContentionEvents, a.said("contention"); n != 0 || len(lines) != 0 {
			t.Errorf("%d counted, and %q", n, lines)
		}
		a.stop()
	})

	t.Run("E08_E09_the_p99_is_0_with_a_note_until_there_are_ten_heartbeats", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", "memory:", nil, "--heartbeat-interval", "1s")
		early := 0
		seen(a, "/v1/metrics", func(f api.Figures) bool {
			switch {
			case f.Heartbeats < 10:
				early++
				if f.HeartbeatLatencyP99 != 0 || !strings.Contains(f.Note, "insufficient data") {
					t.Errorf("after %d heartbeats: %v, %q", f.Heartbeats, f.HeartbeatLatencyP99, f.Note)
				}
				return false
			case f.HeartbeatLatencyP99 <= 0 || f.Note != "":
				t.Errorf("after %d heartbeats: %v, %q", f.Heartbeats, f.HeartbeatLatencyP99, f.Note)
			}

			return true
		})

		if early == 0 {
			t.Error("the test was too slow")
		}
		a.stop()
	})

	t.Run("E08_E10_only_the_last_100_heartbeats_count", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		p := startProxy(t, "127.0.0.1:"+r.port)
		a := start(t, "a", p.address(), nil, "--heartbeat-interval", "30ms", "--lease-duration", "20s")
		a.until("/leader", 200)
		const slow = time.Second // more than what a busy machine adds by itself
		p.late.Store(int64(slow))
		seen(a, "/v1/metrics", func(f api.Figures) bool {
			return f.HeartbeatLatencyP50 > 0 && f.HeartbeatLatencyP99 >= float64(slow.Milliseconds())
		})
		p.late.Store(0)
		before := a.figures()

		f := seen(a, "/v1/metrics", func(f api.Figures) bool {
			return f.HeartbeatLatencyP99 < float64(slow.Milliseconds())
		})
		if f.Heartbeats < before.Heartbeats+90 { // a hundred, less those that were slow when they were counted
			t.Errorf("slow ones were forgotten after %d heartbeats", f.Heartbeats-before.Heartbeats)
		}

		a.stop()
	})
}
