package check

import (
	"slices"
	"testing"
)

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
		"a_request": func(b []byte) []byte {
			b[0] = 8
			return b
		},
		"an_error": func(b []byte) []byte {
			b[0] = 3
			return b
		},
		"another_code": func(b []byte) []byte {
			b[1] = 1
			return b
		},
		"another_id": func(b []byte) []byte {
			b[4]++
			return b
		},
		"another_cookie": func(b []byte) []byte {
			b[10]++
			return b
		},
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

// checksum returns the checksum of RFC 1071.
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
