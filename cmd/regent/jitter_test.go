package main

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// door is a listener in place of a store. It records when connections come, and closes them.
type door struct {
	listener net.Listener
	mu       sync.Mutex
	knocks   []time.Time
}

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	d := &door{listener: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			d.mu.Lock()
			d.knocks = append(d.knocks, time.Now())
			d.mu.Unlock()
			_ = c.Close()
		}
	}()

	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return d
}

// first waits for the first connection after a time, and returns when it came.
func (d *door) first(t *testing.T, after time.Time) time.Time {
	t.Helper()

	for limit := time.Now().Add(60 * time.Second); ; <-time.After(10 * time.Millisecond) {
		d.mu.Lock()

		for _, at := range d.knocks {
			if at.After(after) {
				d.mu.Unlock()
				return at
			}
		}

		d.mu.Unlock()
		if time.Now().After(limit) {
			t.Fatal("nobody has come")
		}
	}
}

// TestStartupJitter checks when the binary first connects to its store, as the store sees it.
func TestStartupJitter(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name      string
		args      []string
		low, high time.Duration
	}{
		{"J01_J14_fleet_defaults_wait_up_to_5s", nil, 0, 5 * second},
		{"J02_a_range_is_kept", []string{"--startup-jitter-min", "2000", "--startup-jitter-max", "8000"}, 2 * second,
			8 * second},
		{"J04_equal_bounds_are_exact", []string{"--startup-jitter-min", "3000", "--startup-jitter-max", "3000"},
			3 * second, 3 * second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newDoor(t)
			began := time.Now()
			d := start(t, "a", "redis://"+store.listener.Addr().String(), nil,
				append([]string{"--profile", "fleet"}, tt.args...)...)
			wait := d.waited()
			if wait < tt.low || wait > tt.high+10*second { // a busy machine may be late
				t.Errorf("it waited %v, want %v to %v", wait, tt.low, tt.high)
			}

			if came := store.first(t, began).Sub(began); came < wait {
				t.Errorf("it came after %v, and says that it waited %v", came, wait)
			}
		})
	}

	t.Run("J01_J10_nothing_contacts_the_store_before_whoever_asks_and_a_second_start_waits_again", func(t *testing.T) {
		t.Parallel()
		store := newDoor(t)
		file := filepath.Join(inMemory(t), "x.db")
		for _, address := range []string{"redis://" + store.listener.Addr().String(), "sqlite:" + file} {
			for range 2 {
				began := time.Now()
				d := start(t, "a", address, nil, "--profile", "fleet", "--startup-jitter-min", "4s",
					"--startup-jitter-max", "4s")
				// A request for what only the store knows waits, or gets the answer that the store is not open yet.
				for _, path := range []string{"/readyz", "/v1/members", "/v1/polls", "/v1/elections/coordinator"} {
					go func() { _, _ = d.get(path) }()
				}

				if address == "sqlite:"+file {
					if _, err := os.Stat(file); err == nil && time.Since(began) < 4*second {
						t.Errorf("%s is there after %v", file, time.Since(began))
					}
					d.await("member:joined")

					if since := time.Since(began); since < 4*second {
						t.Errorf("it joined after %v", since)
					}
				} else if came := store.first(t, began).Sub(began); came < 4*second {
					t.Errorf("it came after %v", came)
				}

				d.signal(syscall.SIGTERM)
				<-d.gone
				_ = os.Remove(file)
			}
		}
	})

	t.Run("J01_a_program_under_run_waits_as_well", func(t *testing.T) {
		t.Parallel()
		store := newDoor(t)
		began := time.Now()
		launch(t, "run", command(t, nil, "run", "x", "--store", "redis://"+store.listener.Addr().String(), "--profile",
			"fleet",
			"--startup-jitter-min", "3s", "--startup-jitter-max", "3s", "--", "true"), nil)

		if came := store.first(t, began).Sub(began); came < 3*second {
			t.Errorf("it came after %v", came)
		}
	})

	t.Run("J03_a_maximum_of_zero_means_no_wait_before_the_first_contact", func(t *testing.T) {
		t.Parallel()
		store := newDoor(t)
		began := time.Now()
		d := start(t, "a", "redis://"+store.listener.Addr().String(), nil, "--profile", "fleet", "--startup-jitter-max",
			"0")
		store.first(t, began)

		if len(d.said("member:started")) != 0 {
			t.Errorf("it waited: %q", d.said("member:started"))
		}

		r := startRedis(t)
		var nodes []*daemon
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			args := serveArgs(t, name, r.address(), "--profile", "fleet", "--startup-jitter-max", "0")
			nodes = append(nodes, launch(t, name, command(t, nil, args...), nil))
		}

		for _, d := range nodes {
			d.serves()
		}

		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()

		for limit := time.Now().Add(60 * time.Second); len(leading(nodes)) == 0; <-tick.C {
			if time.Now().After(limit) {
				t.Fatal("nobody leads")
			}
		}

		for _, d := range nodes {
			d.stop()
		}
	})

	t.Run("J05_J06_ranges_that_cannot_be_are_refused", func(t *testing.T) {
		t.Parallel()

		for _, args := range [][]string{{"--startup-jitter-min=-100"},
			{"--startup-jitter-min=5000", "--startup-jitter-max=1000"}} {
			cmd := command(t, nil, append([]string{"serve", "--profile", "fleet"}, args...)...)
			if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitConfig {
				t.Errorf("%q: exit code %d\n%s", args, cmd.ProcessState.ExitCode(), out)
			}
		}
	})
}
