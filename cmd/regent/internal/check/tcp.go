package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// port is a check of kind tcp.
type port struct {
	address      string
	send, expect string
}

func readTCP(r *reader) probe {
	p := &port{address: r.target, send: r.text("send", ""), expect: r.text("expect", "")}
	if !hostPort(r.target) {
		r.refuseTarget("must be host:port, the port a number from 1 to 65535")
	}
	return p.run
}

// hostPort reports whether s is a host and the number of a port.
func hostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && port != "" && portFits(port)
}

func (p *port) run(ctx context.Context) (Outcome, error) {
	var o Outcome
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return o.because(ctx, err)
	}
	defer conn.Close()
	defer interrupt(ctx, conn)()

	o.Detail = map[string]string{"address": conn.RemoteAddr().String()}
	if _, err := io.WriteString(conn, p.send); err != nil {
		o.Message = "sending: " + why(ctx, err)
		return o, nil
	}

	if p.expect == "" {
		o.OK = true
		o.Message = "connected"
		return o, nil
	}

	answer, err := p.read(conn)
	o.Detail["answer"] = oneLine(string(answer), 200)

	switch {
	case err == nil:
		o.OK = true
		o.Message = fmt.Sprintf("answered with %.100q", p.expect)
	case errors.Is(err, errTooLong):
		o.Message = fmt.Sprintf("%.100q is not in the first %d KiB of the answer", p.expect, bodyMax>>10)
	case errors.Is(err, io.EOF):
		o.Message = fmt.Sprintf("closed after %d bytes without %.100q", len(answer), p.expect)
	default:
		o.Message = fmt.Sprintf("%d bytes without %.100q: %s", len(answer), p.expect, why(ctx, err))
	}

	return o, nil
}

var errTooLong = errors.New("too long")

// read reads until the answer contains the expected text.
func (p *port) read(conn io.Reader) ([]byte, error) {
	answer := make([]byte, 0, 4<<10)
	for len(answer) < bodyMax {
		answer = append(answer, make([]byte, 4<<10)...)[:len(answer)]
		n, err := conn.Read(answer[len(answer):min(cap(answer), bodyMax)])
		answer = answer[:len(answer)+n]
		if bytes.Contains(answer, []byte(p.expect)) {
			return answer, nil
		}
		if err != nil {
			return answer, err
		}
	}

	return answer, errTooLong
}

// interrupt makes reads and writes of a connection fail when ctx ends, until the returned function is called.
func interrupt(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) func() bool {
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}
