package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// manager stands for the service manager: it receives what is sent to its socket, whose name is in NOTIFY_SOCKET.
func manager(t *testing.T, socket string) (hear func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)

	return func() string {
		b := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := conn.Read(b)
		if err != nil {
			t.Error(err)
		}
		return string(b[:n])
	}
}

func notifier(t *testing.T) node.Notifier {
	t.Helper()
	n, err := node.NewNotifier()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNotify(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "")
	t.Setenv("WATCHDOG_PID", "")

	t.Run("ready_and_stopping_are_reported", func(t *testing.T) {
		hear := manager(t, filepath.Join(t.TempDir(), "notify"))
		n := notifier(t)
		if err := n.Ready(); err != nil || hear() != "READY=1" {
			t.Error(err)
		}
		if err := n.Stopping(); err != nil || hear() != "STOPPING=1" {
			t.Error(err)
		}
	})

	t.Run("a_socket_may_be_in_the_abstract_namespace", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux has one")
		}
		hear := manager(t, "@regent-test-"+strconv.Itoa(os.Getpid()))
		if err := notifier(t).Ready(); err != nil || hear() != "READY=1" {
			t.Error(err)
		}
	})

	t.Run("a_manager_that_is_gone_is_an_error", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "gone")
		t.Setenv("NOTIFY_SOCKET", socket)
		if err := notifier(t).Ready(); err == nil || !strings.Contains(err.Error(), socket) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("without_a_manager_nothing_is_reported", func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone")) // which the zero Notifier does not read
		if err := (node.Notifier{}).Stopping(); err != nil {
			t.Error(err)
		}
		t.Setenv("NOTIFY_SOCKET", "")
		if err := notifier(t).Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestWatchdog(t *testing.T) {
	own := strconv.Itoa(os.Getpid())

	t.Run("it_is_reset_while_the_node_lives", func(t *testing.T) {
		hear := manager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("WATCHDOG_USEC", "20000")
		t.Setenv("WATCHDOG_PID", own)
		n := notifier(t)

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.Watch(ctx, func() error { return nil })
		}()
		for range 3 {
			if got := hear(); got != "WATCHDOG=1" {
				t.Errorf("heard %q", got)
			}
		}
		cancel()
		<-done
	})

	t.Run("it_is_not_reset_while_the_node_is_stuck", func(t *testing.T) {
		hear := manager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("WATCHDOG_USEC", "2000")
		t.Setenv("WATCHDOG_PID", "")
		n := notifier(t)

		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		n.Watch(ctx, func() error {
			if asked++; asked == 5 {
				cancel()
			}
			return errors.New("stuck")
		})
		if err := n.Ready(); err != nil || hear() != "READY=1" {
			t.Error("something else was sent before", err)
		}
	})

	t.Run("the_watchdog_of_another_process_is_left_to_it", func(t *testing.T) {
		manager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("WATCHDOG_USEC", "2000")
		t.Setenv("WATCHDOG_PID", "1")
		notifier(t).Watch(t.Context(), func() error {
			t.Error("asked")
			return nil
		})
	})

	for _, c := range []struct{ name, usec, pid, want string }{
		{"no_number", "soon", own, `WATCHDOG_USEC "soon"`},
		{"nothing", "0", own, `WATCHDOG_USEC "0"`},
		{"a_negative_number", "-5", "", `WATCHDOG_USEC "-5"`},
		{"more_than_a_duration_holds", "9223372036854775807", "", `WATCHDOG_USEC "9223372036854775807"`},
		{"much_more_than_a_duration_holds", "18446744073709552", "", `WATCHDOG_USEC "18446744073709552"`},
		{"a_process_without_a_number", "20000", "me", `WATCHDOG_PID "me"`},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", c.usec)
			t.Setenv("WATCHDOG_PID", c.pid)
			if _, err := node.NewNotifier(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
