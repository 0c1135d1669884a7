package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// ping is a check of kind icmp: an echo request each second until one is answered.
type ping struct {
	host   string
	family string // what LookupNetIP calls it
}

// echoEvery is how long an answer is waited for before another request is sent: any packet may get lost.
const echoEvery = time.Second

func readICMP(r *reader) probe {
	p := &ping{host: r.target, family: map[string]string{"any": "ip", "4": "ip4", "6": "ip6"}[r.word("family", "any", "4", "6")]}
	if a, err := netip.ParseAddr(r.target); err == nil {
		if a.Unmap().Is4() && p.family == "ip6" || !a.Unmap().Is4() && p.family == "ip4" {
			r.refuseOption("family", "must be that of the address in target")
		}
	} else if !dnsName(strings.TrimSuffix(r.target, ".")+".") || r.target == "." || r.target == "" {
		r.refuseTarget("must be a host: a name, or an address without a port")
	}
	return p.run
}

func (p *ping) run(ctx context.Context) (Outcome, error) {
	address, err := p.resolve(ctx)
	if err != nil {
		return Outcome{Message: why(ctx, err)}, nil
	}
	o := Outcome{Detail: map[string]string{"address": address.String()}}
	conn, err := dialEcho(address)
	if errors.Is(err, ErrNotPermitted) || errors.Is(err, errors.ErrUnsupported) {
		return o, err
	}
	if err != nil {
		o.Message = why(ctx, err)
		return o, nil
	}
	defer conn.Close()
	defer interrupt(ctx, conn)()
	latency, lost, err := exchangeEcho(ctx, conn)
	o.Detail["lost"] = strconv.Itoa(lost)
	if err != nil {
		o.Message = why(ctx, err)
		return o, nil
	}
	o.OK, o.Latency, o.Message = true, latency, "answer from "+address.String()
	return o, nil
}

func (p *ping) resolve(ctx context.Context) (netip.Addr, error) {
	if a, err := netip.ParseAddr(p.host); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, p.family, p.host)
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0].Unmap(), nil
}

// exchangeEcho sends requests until one is answered, and returns how long that took and how many were not.
func exchangeEcho(ctx context.Context, conn *echoConn) (latency time.Duration, lost int, err error) {
	e := echo{id: uint16(time.Now().UnixNano()), cookie: []byte(rand.Text()), v6: conn.v6}
	var sent []time.Time
	buf := make([]byte, 1500)
	for {
		sent = append(sent, time.Now())
		if _, err := conn.Write(e.request(uint16(len(sent)))); err != nil {
			return 0, len(sent), err
		}
		_ = conn.SetReadDeadline(time.Now().Add(echoEvery))
		for ctx.Err() == nil { // asked after the deadline was set, which interrupt may have done before
			n, err := conn.Read(buf)
			if err != nil {
				if !timedOut(err) {
					return 0, len(sent), err
				}
				break
			}
			if seq, ok := e.reply(conn.payload(buf[:n]), conn.ownID); ok && 0 < seq && int(seq) <= len(sent) {
				return time.Since(sent[seq-1]), len(sent) - 1, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return 0, len(sent), err
		}
	}
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// echo makes requests and knows its replies: by the identifier, if it was not replaced by the kernel, and by a cookie that nobody can guess.
type echo struct {
	id     uint16
	cookie []byte
	v6     bool
}

const echoHeader = 8

// types returns what requests and replies are marked with.
func (e echo) types() (request, reply byte) {
	if e.v6 {
		return 128, 129
	}
	return 8, 0
}

func (e echo) request(seq uint16) []byte {
	kind, _ := e.types()
	b := []byte{kind, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, e.id)
	b = binary.BigEndian.AppendUint16(b, seq)
	b = append(b, e.cookie...)
	if !e.v6 { // the kernel does it for ICMPv6, whose sum needs the source address
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// reply returns the sequence number of a reply to one of the requests.
func (e echo) reply(b []byte, ownID bool) (seq uint16, ok bool) {
	_, kind := e.types()
	if len(b) < echoHeader || b[0] != kind || b[1] != 0 || !bytes.Equal(b[echoHeader:], e.cookie) {
		return 0, false
	}
	if ownID && binary.BigEndian.Uint16(b[4:]) != e.id {
		return 0, false
	}
	return binary.BigEndian.Uint16(b[6:]), true
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i, octet := range b {
		sum += uint32(octet) << (8 * (1 - i&1))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
