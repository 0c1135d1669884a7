package node

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier reports the state of the node to the service manager that started it, as sd_notify(3) has it. The zero
// Notifier reports nothing.
type Notifier struct {
	managed  bool
	watchdog time.Duration // 0 for none
}

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which the service manager sets. The watchdog is
// off if WATCHDOG_PID names another process.
func NewNotifier() (Notifier, error) {
	n := Notifier{managed: os.Getenv("NOTIFY_SOCKET") != ""}
	usec := os.Getenv("WATCHDOG_USEC")

	var err error
	n.watchdog, err = daemon.SdWatchdogEnabled(false)
	if err == nil && n.watchdog != 0 && strconv.FormatInt(n.watchdog.Microseconds(), 10) != usec {
		err = strconv.ErrRange // the library does not notice
	}
	if err != nil {
		const rule = "WATCHDOG_USEC %q, WATCHDOG_PID %q: " +
			"must be a positive number of microseconds, and a process ID or empty: %w"
		return Notifier{}, fmt.Errorf(rule, usec, os.Getenv("WATCHDOG_PID"), err)
	}
	return n, nil
}

// Ready reports that the node has started.
func (n Notifier) Ready() error { return n.send(daemon.SdNotifyReady) }

// Stopping reports that the node has begun to stop.
func (n Notifier) Stopping() error { return n.send(daemon.SdNotifyStopping) }

// Watch resets the watchdog twice in its time while live returns nil, until ctx ends.
func (n Notifier) Watch(ctx context.Context, live func() error) {
	if !n.managed || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 2)
	defer tick.Stop()

	for {
		if live() == nil {
			_ = n.send(daemon.SdNotifyWatchdog) // if it is lost the watchdog acts, and that is right
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n Notifier) send(state string) error {
	if !n.managed {
		return nil
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
