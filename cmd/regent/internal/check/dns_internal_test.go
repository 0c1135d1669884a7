package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestNameservers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("# mine\nsearch example.com\nnameserver 192.0.2.1\nnameserver\tfe80::1%lo # theirs\nnameserver nonsense\nnameserver\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("those_in_the_file_are_asked", func(t *testing.T) {
		got, err := nameservers(file)
		if err != nil || !slices.Equal(got, []string{"192.0.2.1:53", "[fe80::1%lo]:53"}) {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("without_a_file_the_option_must_name_one", func(t *testing.T) {
		if got, err := nameservers(file + "x"); err == nil {
			t.Error(got)
		}
	})
}

func TestEcho(t *testing.T) {
	e := echo{id: 0x1234, cookie: []byte("0123456789abcdefg")}
	request, err := e.request(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the_sum_over_a_request_with_its_checksum_is_nothing", func(t *testing.T) {
		if sum := checksum(request); sum != 0 {
			t.Errorf("%#x", sum)
		}
	})
	reply := slices.Clone(request)
	reply[0] = 0
	t.Run("a_reply_is_known_by_all_that_was_sent", func(t *testing.T) {
		if seq, ok := e.reply(reply, true); !ok || seq != 7 {
			t.Error(seq, ok)
		}
	})
	for name, change := range map[string]func([]byte) []byte{
		"a_request":         func(b []byte) []byte { b[0] = 8; return b },
		"an_error":          func(b []byte) []byte { b[0] = 3; return b },
		"another_code":      func(b []byte) []byte { b[1] = 1; return b },
		"another_id":        func(b []byte) []byte { b[4]++; return b },
		"another_cookie":    func(b []byte) []byte { b[10]++; return b },
		"half_a_reply":      func(b []byte) []byte { return b[:12] },
		"less_than_a_reply": func(b []byte) []byte { return b[:3] },
	} {
		t.Run(name+"_is_not_taken_for_a_reply", func(t *testing.T) {
			if _, ok := e.reply(change(slices.Clone(reply)), true); ok {
				t.Error("it was")
			}
		})
	}
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

// FuzzDNS shows that no message makes the reader panic or go on for ever.
func FuzzDNS(f *testing.F) {
	q := dnsQuestion{id: 1, name: "a.test.", record: dnsmessage.TypeMX}
	m, err := q.pack()
	if err != nil {
		f.Fatal(err)
	}
	m[2] = 0x81
	m[7] = 1
	f.Add(append(m, 0xc0, 12, 0, 15, 0, 1, 0, 0, 0, 1, 0, 4, 0, 10, 0xc0, 12))
	f.Add(append(m, 0xc0, byte(len(m)), 0, 16, 0, 1, 0, 0, 0, 1, 0, 1, 255))
	f.Fuzz(func(t *testing.T, m []byte) {
		for _, record := range dnsTypes() {
			q.record = record
			a, err := q.unpack(m)
			if err == nil && len(a.values) > len(m) {
				t.Error(a)
			}
		}
	})
}
