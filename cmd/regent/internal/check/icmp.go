package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ping is a check of kind icmp: an echo request each second until one is answered.
type ping struct {
	host   string
	family string // ip, ip4 or ip6, as LookupNetIP takes it
}

// echoEvery is how long to wait for an answer before another request is sent: any packet may get lost.
const echoEvery = time.Second

func readICMP(r *reader) probe {
	families := map[string]string{"any": "ip", "4": "ip4", "6": "ip6"}
	p := &ping{host: r.target, family: families[r.word("family", "any", "4", "6")]}

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
		return o.because(ctx, err)
	}
	defer conn.Close()
	defer interrupt(ctx, conn)()

	latency, lost, err := exchangeEcho(ctx, conn)
	o.Detail["lost"] = strconv.Itoa(lost)

	if err != nil {
		return o.because(ctx, err)
	}

	o.OK = true
	o.Latency = latency
	o.Message = "answer from " + address.String()
	return o, nil
}

// resolve returns the first address of the host.
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

// exchangeEcho sends requests until one is answered. It returns how long that took, and how many were not answered.
func exchangeEcho(ctx context.Context, conn *echoConn) (latency time.Duration, lost int, err error) {
	e := echo{id: uint16(time.Now().UnixNano()), cookie: []byte(rand.Text()), v6: conn.v6}
	var sent []time.Time
	buf := make([]byte, 1500)
	for {
		sent = append(sent, time.Now())
		request, err := e.request(uint16(len(sent)))
		if err != nil {
			return 0, len(sent), err
		}
		if _, err := conn.Write(request); err != nil {
			return 0, len(sent), err
		}

		_ = conn.SetReadDeadline(time.Now().Add(echoEvery))
		for ctx.Err() == nil { // checked after the deadline was set: interrupt may have set one before
			n, err := conn.Read(buf)
			if err != nil {
				if !timedOut(err) {
					return 0, len(sent), err
				}
				break
			}

			if seq, ok := e.reply(conn.payload(buf[:n]), conn.ownID); ok && 0 < seq && seq <= len(sent) {
				return time.Since(sent[seq-1]), len(sent) - 1, nil
			}
		}

		if err := ctx.Err(); err != nil {
			return 0, len(sent), err
		}
	}
}

// timedOut reports whether an error is a timeout.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// echo makes requests, and recognises their replies by the identifier, unless the kernel replaced it, and by a cookie
// that nobody can guess.
type echo struct {
	id     uint16
	cookie []byte
	v6     bool
}

// types returns the ICMP types of requests and replies.
func (e echo) types() (request, reply icmp.Type) {
	if e.v6 {
		return ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	return ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
}

// request returns a request with its checksum. In ICMPv6 the kernel fills it in: the checksum needs the source address.
func (e echo) request(seq uint16) ([]byte, error) {
	kind, _ := e.types()
	m := icmp.Message{Type: kind, Body: &icmp.Echo{ID: int(e.id), Seq: int(seq), Data: e.cookie}}
	return m.Marshal(nil)
}

// reply returns the sequence number of a reply to one of the requests.
func (e echo) reply(b []byte, ownID bool) (seq int, ok bool) {
	_, kind := e.types()
	m, err := icmp.ParseMessage(kind.Protocol(), b)
	if err != nil || m.Type != kind || m.Code != 0 {
		return 0, false
	}

	body, ok := m.Body.(*icmp.Echo)
	if !ok || !bytes.Equal(body.Data, e.cookie) || ownID && body.ID != int(e.id) {
		return 0, false
	}

	return body.Seq, true
}
