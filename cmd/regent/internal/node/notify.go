package node

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notifier tells the service manager how the node is, if it was started by one: sd_notify(3). The zero Notifier tells nobody.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// NewNotifier reads NOTIFY_SOCKET and WATCHDOG_USEC.
func NewNotifier(getenv func(string) string) (Notifier, error) {
	n := Notifier{socket: getenv("NOTIFY_SOCKET")}
	if usec := getenv("WATCHDOG_USEC"); usec != "" {
		us, err := strconv.ParseInt(usec, 10, 64)
		if err != nil || us <= 0 {
			return n, fmt.Errorf("WATCHDOG_USEC %q: it must be a number of microseconds", usec)
		}
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n, nil
}

// Ready tells that the node has started.
func (n Notifier) Ready() error { return n.tell("READY=1") }

// Stopping tells that it has begun to stop.
func (n Notifier) Stopping() error { return n.tell("STOPPING=1") }

// Watch tells at half the watchdog's time, as long as the node lives, that it does.
func (n Notifier) Watch(ctx context.Context, live func() error) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 2)
	defer tick.Stop()
	for {
		if live() == nil {
			_ = n.tell("WATCHDOG=1") // if nobody hears it the watchdog acts, and that is right
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n Notifier) tell(state string) error {
	if n.socket == "" {
		return nil
	}
	name := n.socket
	if strings.HasPrefix(name, "@") { // the abstract namespace
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
