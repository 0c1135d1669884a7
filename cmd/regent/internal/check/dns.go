package check

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup is a check of kind dns. It asks the server itself: the resolver of the system would answer from its hosts
// file, add domains to the name, and hide the answer of the server.
type lookup struct {
	name   string // ends in a dot
	record string // A, AAAA and so on
	server string // host:port; those of the system if empty
	expect string
}

// resolvConf is the file that names the servers of the system.
const resolvConf = "/etc/resolv.conf"

const (
	dnsRounds = 3           // tries with each server, because UDP loses packets
	dnsWait   = time.Second // for an answer in the first round; twice that in each further one
)

func readDNS(r *reader) probe {
	l := &lookup{name: strings.TrimSuffix(r.target, ".") + ".", expect: r.text("expect", "")}
	if !dnsName(l.name) {
		r.refuseTarget("must be a domain name in ASCII, such as example.com")
	}

	l.record = r.word("type", "A", "AAAA", "CNAME", "MX", "TXT", "NS")

	l.server = withDNSPort(r.text("server", ""))
	if _, given := r.options["server"]; given && !hostPort(l.server) {
		r.refuseOption("server", "must be a host, or host:port")
	}

	if l.expect != "" && (l.record == "A" || l.record == "AAAA") {
		a, err := netip.ParseAddr(l.expect)
		if err != nil || a.Is4() != (l.record == "A") {
			r.refuseOption("expect", "must be an address, as a record of type "+l.record+" is")
		} else {
			l.expect = a.String()
		}
	}

	return l.run
}

// withDNSPort adds the port of DNS to a server that has none.
func withDNSPort(server string) string {
	a, err := netip.ParseAddr(server)
	switch {
	case err == nil:
		return net.JoinHostPort(a.String(), "53")
	case server == "" || strings.Contains(server, ":"):
		return server
	}

	return net.JoinHostPort(server, "53")
}

func (l *lookup) run(ctx context.Context) (Outcome, error) {
	servers := []string{l.server}
	if l.server == "" {
		var err error
		if servers, err = nameservers(resolvConf); err != nil {
			return Outcome{}, err
		}
	}

	var last error
	for try := range dnsRounds * len(servers) {
		server := servers[try%len(servers)]
		began := time.Now()
		once, cancel := context.WithTimeout(ctx, dnsWait<<(try/len(servers)))
		answer, err := l.ask(once, server)
		cancel()

		if err == nil {
			o := l.evaluate(answer)
			o.Latency = time.Since(began)
			o.Detail["server"] = server
			return o, nil
		}

		if last = err; ctx.Err() != nil {
			break
		}
	}

	return Outcome{Message: why(ctx, last)}, nil
}

// ask sends the question by UDP, and again by TCP if the answer does not fit.
func (l *lookup) ask(ctx context.Context, server string) (dnsAnswer, error) {
	answer, err := l.exchange(ctx, "udp", server)
	if err == nil && answer.truncated {
		return l.exchange(ctx, "tcp", server)
	}
	return answer, err
}

// exchange sends the question over one network, and returns the answer to it.
func (l *lookup) exchange(ctx context.Context, network, server string) (dnsAnswer, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return dnsAnswer{}, err
	}
	defer conn.Close()
	defer interrupt(ctx, conn)()

	q := dnsQuestion{id: uint16(rand.Uint32()), name: l.name, record: dnsTypes()[l.record]}
	message, err := q.pack()
	if err != nil {
		return dnsAnswer{}, err
	}
	if network == "tcp" {
		message = append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
	}

	if _, err := conn.Write(message); err != nil {
		return dnsAnswer{}, err
	}

	for buf := make([]byte, 64<<10); ; {
		n, err := readMessage(conn, network, buf)
		if err != nil {
			return dnsAnswer{}, err
		}

		answer, err := q.unpack(buf[:n])
		if network == "udp" && errors.Is(err, errOtherQuestion) {
			continue // a late answer, or a forged one
		}

		return answer, err
	}
}

// readMessage reads one message, which has its length before it in TCP.
func readMessage(conn net.Conn, network string, buf []byte) (int, error) {
	if network == "udp" {
		return conn.Read(buf)
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return 0, err
	}

	return io.ReadFull(conn, buf[:binary.BigEndian.Uint16(buf)])
}

// evaluate compares an answer to what was expected.
func (l *lookup) evaluate(a dnsAnswer) Outcome {
	slices.Sort(a.values) // servers rotate the records
	o := Outcome{Detail: map[string]string{"code": a.codeName()}}

	if len(a.values) > 0 {
		o.Detail["answer"] = strings.Join(a.values, ", ")
	}
	switch {
	case a.code != dnsmessage.RCodeSuccess:
		o.Message = a.codeName()
	case len(a.values) == 0:
		o.Message = "no record of type " + l.record
	case l.expect != "" && !slices.ContainsFunc(a.values, l.expected):
		o.Message = fmt.Sprintf("%.100q is not among %s", l.expect, o.Detail["answer"])
	default:
		o.OK = true
		o.Message = o.Detail["answer"]
	}

	return o
}

// expected reports whether a value is the expected one. Names are compared as DNS does; that of a mail server also
// without its preference.
func (l *lookup) expected(value string) bool {
	if l.record == "TXT" {
		return value == l.expect
	}
	want := strings.TrimSuffix(l.expect, ".")
	_, host, _ := strings.Cut(value, " ")

	return strings.EqualFold(value, want) || l.record == "MX" && strings.EqualFold(host, want)
}

// nameservers returns the servers that the file names.
func nameservers(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("no server is known, set options.server: %w", err)
	}
	defer f.Close()

	var servers []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			servers = append(servers, net.JoinHostPort(a.String(), "53"))
		}
	}

	if len(servers) == 0 {
		return nil, fmt.Errorf("no server is known, set options.server: %s names none", file)
	}
	return servers, nil
}
