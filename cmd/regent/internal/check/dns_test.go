package check_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// nameServer answers over UDP and TCP on one port. The tests make its answers byte by byte.
type nameServer struct {
	address string
	udp     func(question []byte) [][]byte // what is sent back, in order
	asked   atomic.Int32
}

func serveDNS(t *testing.T, udp, tcp func(question []byte) [][]byte) *nameServer {
	t.Helper()
	s := &nameServer{udp: udp}
	overTCP := func(conn net.Conn) {
		size := make([]byte, 2)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}

		question := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}

		for _, m := range tcp(question) {
			_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
		}
	}
	var packets net.PacketConn

	err := errors.New("no port")
	for tries := 0; err != nil; tries++ { // a port that is free for TCP may be taken for UDP
		if tries == 20 {
			t.Fatal(err)
		}
		s.address = listen(t, "127.0.0.1:0", overTCP)
		packets, err = net.ListenPacket("udp", s.address)
	}

	t.Cleanup(func() { packets.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}

			s.asked.Add(1)
			for _, m := range s.udp(append([]byte(nil), buf[:n]...)) {
				_, _ = packets.WriteTo(m, from)
			}
		}
	}()

	return s
}

// answer returns an answer to the question, with a code and records.
func answer(question []byte, code byte, records ...[]byte) []byte {
	m := append([]byte(nil), question...)
	m[2], m[3] = 0x81, 0x80|code
	binary.BigEndian.PutUint16(m[6:], uint16(len(records)))

	for _, r := range records {
		m = append(m, r...)
	}
	return m
}

// record returns a record whose name points at that of the question.
func record(kind uint16, data ...byte) []byte {
	r := binary.BigEndian.AppendUint16([]byte{0xc0, 12}, kind)
	r = append(r, 0, 1, 0, 0, 0, 60)
	r = binary.BigEndian.AppendUint16(r, uint16(len(data)))
	return append(r, data...)
}

// labels returns a name that ends with that of the question.
func labels(first string) []byte { return append(append([]byte{byte(len(first))}, first...), 0xc0, 12) }

func kindOf(question []byte) uint16 { return binary.BigEndian.Uint16(question[len(question)-4:]) }

func askedFor(question []byte) string {
	var all []string
	for at := 12; question[at] != 0; at += int(question[at]) + 1 {
		all = append(all, string(question[at+1:at+1+int(question[at])]))
	}
	return strings.Join(all, ".")
}

// zone returns the answers for a name.
func zone(question []byte) [][]byte {
	one := func(m []byte) [][]byte { return [][]byte{m} }
	kind := kindOf(question)

	switch askedFor(question) {
	case "missing.test":
		return one(answer(question, 3))
	case "broken.test":
		return one(answer(question, 2))
	case "empty.test":
		return one(answer(question, 0))
	case "alias.test": // a record of another kind comes first
		return one(answer(question, 0, record(5, labels("www")...), record(1, 192, 0, 2, 1)))
	case "garbage.test":
		return one(append(answer(question, 0, nil), 0xff, 0xff))
	case "circle.test":
		return one(answer(question, 0, record(5, 0xc0, byte(len(question))+12)))
	case "short.test": // an address without its data, and the next record where the data should be
		return one(answer(question, 0, record(1), record(1, 192, 0, 2, 1)))
	case "refused.test": // without the question
		m := answer(question, 5)[:12]
		m[5] = 0
		return one(m)
	case "others.test": // an answer to another question comes first
		other := answer(question, 0, record(1, 6, 6, 6, 6))
		other[13]++
		return [][]byte{other, answer(question, 0, record(1, 192, 0, 2, 1))}
	case "forged.test":
		forged := answer(question, 0, record(1, 6, 6, 6, 6))
		forged[0]++
		return [][]byte{{1, 2, 3}, forged, answer(question, 0, record(1, 192, 0, 2, 1))}[1:]
	case "lonely.test":
		return one(answer(question, 0, record(5, labels("www")...)))
	case "truncated.test": // in the middle of a record
		m := answer(question, 0, record(1, 192, 0, 2, 1))
		m[2] |= 2
		return one(m[:len(m)-2])
	}

	switch kind {
	case 1:
		return one(answer(question, 0, record(1, 192, 0, 2, 2), record(1, 192, 0, 2, 1)))
	case 28:
		return one(answer(question, 0, record(28, append(make([]byte, 15), 1)...)))
	case 5, 2:
		return one(answer(question, 0, record(kind, labels("Ns1")...)))
	case 15:
		return one(answer(question, 0, record(15, append([]byte{0, 10}, labels("mail")...)...)))
	case 16:
		return one(answer(question, 0, record(16,
			append(append([]byte{7}, "v=spf1 "...), append([]byte{4}, "-all"...)...)...)))
	}

	return nil
}

func TestDNS(t *testing.T) {
	settles(t)
	s := serveDNS(t, zone, func(question []byte) [][]byte {
		var many [][]byte
		for i := range 100 {
			many = append(many, record(1, 192, 0, 2, byte(i)))
		}
		return [][]byte{answer(question, 0, many...)}
	})
	for _, c := range []struct {
		name, target string
		options      []string
		ok           bool
		message      string
	}{
		{"addresses", "a.test", nil, true, "192.0.2.1, 192.0.2.2"},
		{"an_expected_address", "a.test.", []string{"expect", "192.0.2.2"}, true, ""},
		{"another_address", "a.test", []string{"expect", "192.0.2.3"}, false,
			`"192.0.2.3" is not among 192.0.2.1, 192.0.2.2`},
		{"an_IPv6_address", "a.test", []string{"type", "AAAA", "expect", "0:0::1"}, true, "::1"},
		{"an_alias", "a.test", []string{"type", "CNAME", "expect", "ns1.A.test."}, true, "Ns1.a.test"},
		{"a_name_server", "a.test", []string{"type", "NS", "expect", "ns1.a.test"}, true, "Ns1.a.test"},
		{"a_mail_server", "a.test", []string{"type", "MX", "expect", "mail.a.test"}, true, "10 mail.a.test"},
		{"a_mail_server_with_its_preference", "a.test", []string{"type", "MX", "expect", "10 mail.a.test"}, true, ""},
		{"another_preference", "a.test", []string{"type", "MX", "expect", "20 mail.a.test"}, false, "is not among"},
		{"a_text_in_pieces", "a.test", []string{"type", "TXT", "expect", "v=spf1 -all"}, true, ""},
		{"a_text_in_another_case", "a.test", []string{"type", "TXT", "expect", "V=spf1 -all"}, false, ""},
		{"the_root", ".", []string{"type", "NS"}, true, ""},
		{"an_address_behind_an_alias", "alias.test", []string{"expect", "192.0.2.1"}, true, "192.0.2.1"},
		{"an_alias_without_an_address", "lonely.test", nil, false, "no record of type A"},
		{"a_name_that_there_is_not", "missing.test", nil, false, "NXDOMAIN"},
		{"a_server_that_fails", "broken.test", nil, false, "SERVFAIL"},
		{"no_record_of_the_type", "empty.test", nil, false, "no record of type A"},
		{"garbage", "garbage.test", nil, false, "not a DNS message"},
		{"a_name_that_goes_in_a_circle", "circle.test", []string{"type", "CNAME"}, false, "not a DNS message"},
		{"an_address_of_no_bytes", "short.test", nil, false, "not a DNS message: a record of type A has 0 bytes"},
		{"a_server_that_refuses_without_the_question", "refused.test", nil, false, "REFUSED"},
		{"an_answer_to_another_question_is_passed_over", "others.test", nil, true, "192.0.2.1"},
		{"a_forged_answer_is_passed_over", "forged.test", nil, true, "192.0.2.1"},
		{"a_truncated_answer_is_asked_for_over_TCP", "truncated.test", []string{"expect", "192.0.2.77"}, true,
			"192.0.2.99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, "dns", c.target, append(c.options, "server", s.address)...)
			if len(o.Message) < 490 || !c.ok {
				found(t, o, c.ok, c.message)
			}
			if o.OK != c.ok || o.OK && (o.Detail["server"] != s.address || o.Detail["code"] != "NOERROR" ||
				o.Detail["answer"] == "") {
				t.Errorf("%+v", o)
			}
		})
	}

	t.Run("a_lost_packet_is_asked_for_again", func(t *testing.T) {
		var lost atomic.Bool
		s := serveDNS(t, func(question []byte) [][]byte {
			if !lost.Swap(true) {
				return nil
			}
			return zone(question)
		}, nil)
		found(t, run(t, "dns", "a.test", "server", s.address), true, "192.0.2.1")

		if n := s.asked.Load(); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})

	t.Run("a_silent_server_is_not_waited_for_beyond_the_timeout", func(t *testing.T) {
		s := serveDNS(t, func([]byte) [][]byte { return nil }, nil)
		found(t, runFor(t, 50*time.Millisecond, "dns", "a.test", "server", s.address), false, "no answer in time")
	})

	t.Run("no_server_at_all", func(t *testing.T) {
		found(t, run(t, "dns", "a.test", "server", closed(t)), false, "connection refused")
	})
}
