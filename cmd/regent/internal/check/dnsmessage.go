package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// The messages of RFC 1035, as far as a check needs them: one question of class IN, and the records of that type in the answer.

// dnsTypes returns the numbers of the record types.
func dnsTypes() map[string]uint16 {
	return map[string]uint16{"A": 1, "NS": 2, "CNAME": 5, "MX": 15, "TXT": 16, "AAAA": 28}
}

type dnsQuestion struct {
	id     uint16
	name   string // ends in a dot
	record uint16
}

type dnsAnswer struct {
	code      int // 0 is success
	truncated bool
	values    []string
}

var (
	errDNSMessage    = errors.New("the answer is not a DNS message")
	errOtherQuestion = errors.New("the answer is to another question")
)

const (
	dnsHeader    = 12
	dnsResponse  = 1 << 15
	dnsTruncated = 1 << 9
	dnsRecursion = 1 << 8
	dnsInternet  = 1
)

func (a dnsAnswer) codeName() string {
	names := []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}
	if a.code < len(names) {
		return names[a.code]
	}
	return fmt.Sprintf("RCODE%d", a.code)
}

// dnsName reports whether a name that ends in a dot can be asked for.
func dnsName(name string) bool {
	if name == "." {
		return true
	}
	if len(name) > 254 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	return true
}

func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

func (q dnsQuestion) pack() []byte {
	b := make([]byte, 0, 300)
	for _, word := range []uint16{q.id, dnsRecursion, 1, 0, 0, 0} {
		b = binary.BigEndian.AppendUint16(b, word)
	}
	if q.name != "." {
		for label := range strings.SplitSeq(strings.TrimSuffix(q.name, "."), ".") {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, q.record)
	return binary.BigEndian.AppendUint16(b, dnsInternet)
}

// unpack reads an answer to the question. The message may hold anything.
func (q dnsQuestion) unpack(m []byte) (dnsAnswer, error) {
	var a dnsAnswer
	if len(m) < dnsHeader {
		return a, errDNSMessage
	}
	word := func(at int) uint16 { return binary.BigEndian.Uint16(m[at:]) }
	flags, questions, records := word(2), word(4), word(6)
	if word(0) != q.id || flags&dnsResponse == 0 {
		return a, errOtherQuestion
	}
	a.code, a.truncated = int(flags&0xf), flags&dnsTruncated != 0
	if questions == 0 && a.code != 0 { // some refuse without repeating the question
		return a, nil
	}
	name, at, err := unpackName(m, dnsHeader)
	if err != nil || questions != 1 || at+4 > len(m) {
		return a, errDNSMessage
	}
	if !strings.EqualFold(name+".", q.name) || word(at) != q.record || word(at+2) != dnsInternet {
		return a, errOtherQuestion
	}
	if at += 4; a.truncated {
		return a, nil // it is asked for again
	}
	for range records {
		if _, at, err = unpackName(m, at); err != nil || at+10 > len(m) {
			return a, errDNSMessage
		}
		record, class, end := word(at), word(at+2), at+10+int(word(at+8))
		if end > len(m) {
			return a, errDNSMessage
		}
		if record == q.record && class == dnsInternet {
			value, err := unpackValue(m[:end], at+10, record)
			if err != nil {
				return a, err
			}
			a.values = append(a.values, value)
		}
		at = end
	}
	return a, nil
}

// unpackValue reads the data of a record, which goes to the end of m.
func unpackValue(m []byte, at int, record uint16) (string, error) {
	data := m[at:]
	switch types := dnsTypes(); record {
	case types["A"], types["AAAA"]:
		if address, ok := netip.AddrFromSlice(data); ok && address.Is4() == (record == types["A"]) {
			return address.String(), nil
		}
	case types["CNAME"], types["NS"]:
		if name, end, err := unpackName(m, at); err == nil && end == len(m) {
			return name, nil
		}
	case types["MX"]:
		if len(data) > 2 {
			if name, end, err := unpackName(m, at+2); err == nil && end == len(m) {
				return fmt.Sprintf("%d %s", binary.BigEndian.Uint16(data), name), nil
			}
		}
	case types["TXT"]:
		var text strings.Builder
		for len(data) > 0 && int(data[0]) < len(data) {
			n := int(data[0])
			text.Write(data[1 : 1+n])
			data = data[1+n:]
		}
		if len(data) == 0 {
			return text.String(), nil
		}
	}
	return "", errDNSMessage
}

// unpackName reads a name, without the dot at its end, and returns where what follows begins. A pointer must point back, so that none goes
// round in a circle.
func unpackName(m []byte, at int) (name string, next int, err error) {
	var labels []string
	size, least := 0, at
	for at < len(m) {
		switch n := int(m[at]); {
		case n == 0:
			if next == 0 {
				next = at + 1
			}
			return strings.Join(labels, "."), next, nil
		case n < 64 && at+1+n <= len(m) && size+n+1 < 255:
			labels = append(labels, string(m[at+1:at+1+n]))
			size += n + 1
			at += 1 + n
		case n >= 192 && at+1 < len(m):
			if next == 0 {
				next = at + 2
			}
			if at = (n&63)<<8 | int(m[at+1]); at >= least {
				return "", 0, errDNSMessage
			}
			least = at
		default:
			return "", 0, errDNSMessage
		}
	}
	return "", 0, errDNSMessage
}
