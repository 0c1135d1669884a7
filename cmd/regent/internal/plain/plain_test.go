package plain_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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
		`no answer from http://h:1 in time`:        fmt.Errorf("no answer from http://h:1: %w", late),
		`get "x": given up`:                        fmt.Errorf(`get "x": %w`, context.Canceled),
		"dial tcp 127.0.0.1:1: connection refused": errors.New("dial tcp 127.0.0.1:1: connection refused"),
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
