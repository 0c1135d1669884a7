package plain_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// closedByItself returns the error of a read on a connection that this process closes meanwhile.
func closedByItself(t *testing.T) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()

	_, err = conn.Read(make([]byte, 1))
	return err
}

// addr is the address of a server.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func TestError(t *testing.T) {
	deadline, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	late := deadline.Err()

	for want, err := range map[string]error{
		`swap "x": no answer in time`:            fmt.Errorf(`swap "x": %w`, late),
		`connect: no answer in time`:             fmt.Errorf("connect: no answer in time: %w", late),
		`open store etcd://h: no answer in time`: fmt.Errorf("open store etcd://h: %w: %w", late, context.Canceled),
		`get "x": no answer from h:1 within 1.046s`: fmt.Errorf(`get "x": no answer from h:1 within 1.046s: %w`,
			closedByItself(t)),
		`no answer from http://h:1 in time`: fmt.Errorf("no answer from http://h:1: %w", late),
		`get "x": given up`:                 fmt.Errorf(`get "x": %w`, context.Canceled),
		"the disk is full":                  errors.New("the disk is full"),
		"open store redis://h: no connection to 127.0.0.1:1: connection refused": errors.New("open store redis://h: " +
			"connect: dial tcp 127.0.0.1:1: connect: connection refused"),
		"open store etcd://h: no connection to 127.0.0.1:1: connection refused": errors.New("open store etcd://h: " +
			`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp ` +
			`127.0.0.1:1: connect: connection refused"`),
		"failed to connect to `user=u`: no connection to 127.0.0.1:1: connection refused": errors.New("failed to " +
			"connect to `user=u`: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: " +
			"connection refused"),
		"failed to connect to `user=u`: there is no host named h": errors.New("failed to connect to `user=u`: " +
			"hostname resolving error: lookup h on 10.0.0.1:53: no such host; lookup h on 10.0.0.1:53: no such host"),
		`get "x": 127.0.0.1:1 has closed the connection`: errors.New(`get "x": read tcp 127.0.0.1:9->127.0.0.1:1: ` +
			"read: connection reset by peer"),
		`get "x": no connection to h:1: no answer in time`: fmt.Errorf(`get "x": connect: no answer in time: %w`,
			&net.OpError{Op: "dial", Net: "tcp", Addr: addr("h:1"), Err: os.ErrDeadlineExceeded}),
		`get "x": register not found: context canceled`: fmt.Errorf(`get "x": %w: %w`, driver.ErrNotFound,
			context.Canceled),
	} {
		got := plain.Error(plain.Error(err))
		if got.Error() != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !errors.Is(got, err) {
			t.Errorf("%q is not %q any more", got, err)
		}
	}

	if plain.Error(nil) != nil {
		t.Error("nil is an error")
	}
}
