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
	text := "# mine\nsearch example.com\nnameserver 192.0.2.1\nnameserver\tfe80::1%lo # theirs\n" +
		"nameserver nonsense\nnameserver\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
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

// FuzzDNS checks that no message makes the parser panic or run for ever.
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
