package check

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsTypes returns the types of records, by their names.
func dnsTypes() map[string]dnsmessage.Type {
	return map[string]dnsmessage.Type{
		"A":     dnsmessage.TypeA,
		"AAAA":  dnsmessage.TypeAAAA,
		"CNAME": dnsmessage.TypeCNAME,
		"MX":    dnsmessage.TypeMX,
		"NS":    dnsmessage.TypeNS,
		"TXT":   dnsmessage.TypeTXT,
	}
}

// dnsQuestion is one question of class IN.
type dnsQuestion struct {
	id     uint16
	name   string // ends in a dot
	record dnsmessage.Type
}

// dnsAnswer is the answer of a server: the records of the type in the question.
type dnsAnswer struct {
	code      dnsmessage.RCode
	truncated bool
	values    []string
}

var (
	errDNSMessage    = errors.New("the answer is not a DNS message")
	errOtherQuestion = errors.New("the answer is to another question")
)

// codeName returns the code of the answer as dig and RFC 1035 write it.
func (a dnsAnswer) codeName() string {
	names := []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}
	if int(a.code) < len(names) {
		return names[a.code]
	}
	return fmt.Sprintf("RCODE%d", a.code)
}

// dnsName reports whether a name that ends in a dot is valid.
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

// notInName reports whether a character cannot be in a name.
func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// pack returns the message that asks the question.
func (q dnsQuestion) pack() ([]byte, error) {
	name, err := dnsmessage.NewName(q.name)
	if err != nil {
		return nil, fmt.Errorf("name %s: %w", q.name, err)
	}

	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: q.record, Class: dnsmessage.ClassINET}},
	}

	return m.Pack()
}

// unpack reads an answer to the question. The message may hold anything.
func (q dnsQuestion) unpack(message []byte) (dnsAnswer, error) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil {
		return dnsAnswer{}, notDNS(err)
	}
	if header.ID != q.id || !header.Response {
		return dnsAnswer{}, errOtherQuestion
	}

	a := dnsAnswer{code: header.RCode, truncated: header.Truncated}
	questions, err := p.AllQuestions()
	switch {
	case err != nil:
		return a, notDNS(err)
	case len(questions) == 0 && a.code != dnsmessage.RCodeSuccess:
		return a, nil // some servers refuse without repeating the question
	case len(questions) != 1:
		return a, notDNS(fmt.Errorf("it has %d questions", len(questions)))
	case !q.equal(questions[0]):
		return a, errOtherQuestion
	case a.truncated:
		return a, nil // the question is sent again by TCP
	}

	a.values, err = q.values(&p)
	return a, err
}

// equal compares the question to the one that an answer repeats. The case of names does not matter.
func (q dnsQuestion) equal(other dnsmessage.Question) bool {
	return strings.EqualFold(other.Name.String(), q.name) &&
		other.Type == q.record && other.Class == dnsmessage.ClassINET
}

// values reads the answer section, and returns the records of the type in the question.
func (q dnsQuestion) values(p *dnsmessage.Parser) ([]string, error) {
	var values []string
	for {
		header, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return values, nil
		}
		if err != nil {
			return values, notDNS(err)
		}

		if header.Type != q.record || header.Class != dnsmessage.ClassINET {
			if err := p.SkipAnswer(); err != nil {
				return values, notDNS(err)
			}
			continue
		}

		value, err := readValue(p, header)
		if err != nil {
			return values, notDNS(err)
		}

		values = append(values, value)
	}
}

// readValue reads the data of a record as text. Names are without the dot at their end.
func readValue(p *dnsmessage.Parser, header dnsmessage.ResourceHeader) (string, error) {
	switch header.Type {
	case dnsmessage.TypeA:
		r, err := p.AResource()
		return address(header, r.A[:], err)
	case dnsmessage.TypeAAAA:
		r, err := p.AAAAResource()
		return address(header, r.AAAA[:], err)
	case dnsmessage.TypeCNAME:
		r, err := p.CNAMEResource()
		return host(r.CNAME), err
	case dnsmessage.TypeNS:
		r, err := p.NSResource()
		return host(r.NS), err
	case dnsmessage.TypeMX:
		r, err := p.MXResource()
		return fmt.Sprintf("%d %s", r.Pref, host(r.MX)), err
	case dnsmessage.TypeTXT:
		r, err := p.TXTResource()
		return strings.Join(r.TXT, ""), err
	}

	return "", fmt.Errorf("type %v is not supported", header.Type)
}

// address returns an address as text. It checks the length of the data, which the parser does not: the parser would
// read into the next record.
func address(header dnsmessage.ResourceHeader, data []byte, err error) (string, error) {
	if err == nil && int(header.Length) != len(data) {
		kind := strings.TrimPrefix(header.Type.String(), "Type")
		err = fmt.Errorf("a record of type %s has %d bytes", kind, header.Length)
	}

	if err != nil {
		return "", err
	}
	a, _ := netip.AddrFromSlice(data)

	return a.String(), nil
}

// host returns a name without the dot at its end.
func host(name dnsmessage.Name) string { return strings.TrimSuffix(name.String(), ".") }

// notDNS wraps an error of the parser.
func notDNS(err error) error { return fmt.Errorf("%w: %w", errDNSMessage, err) }
