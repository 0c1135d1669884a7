package embedded

import (
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
)

func TestAddress(t *testing.T) {
	t.Run("what_is_wrong_names_key_value_and_rule", func(t *testing.T) {
		for address, want := range map[string]string{
			"etcd://a":                                       "must begin with etcd+embedded:",
			"etcd+embedded:?peers=a=127.0.0.1":               `directory "": directory must be given`,
			"etcd+embedded:d":                                `peers "": peers must be NAME=HOST`,
			"etcd+embedded:d?peers=127.0.0.1":                `peers "127.0.0.1": peers must be NAME=HOST`,
			"etcd+embedded:d?peers=a=127.0.0.1:0":            `peers "a=127.0.0.1:0"`,
			"etcd+embedded:d?peers=a=0.0.0.0":                `peers "a=0.0.0.0"`,
			"etcd+embedded:d?peers=a=127.0.0.1,a=127.0.0.2":  `peers "a=127.0.0.2"`,
			"etcd+embedded:d?peers=a=127.0.0.1,b=127.0.0.1":  `peers "b=127.0.0.1"`,
			"etcd+embedded:d?peers=a=::1&clients=b=::1":      `clients "b": clients must name members that peers`,
			"etcd+embedded:d?peers=a=::1&peers=b=::1":        "peers must be given once",
			"etcd+embedded:d?peers=a=::1&name=":              `name "": name must not be empty`,
			"etcd+embedded:d?peers=a=::1&colour=red":         `colour "red": colour is not known`,
			"etcd+embedded:d?peers=a=::1&state=old":          `state "old"`,
			"etcd+embedded:d?peers=a=::1&insecure=perhaps":   `insecure "perhaps": insecure must be true or false`,
			"etcd+embedded:d?peers=a=::1&electionTimeout=1h": `electionTimeout "1h"`,
			"etcd+embedded:d?peers=a=::1&listen=host":        `listen "host": listen must be an IP address`,
			"etcd+embedded:d?peers=a=::1&listen=0.0.0.0":     "since other hosts can reach 0.0.0.0",
			"etcd+embedded:d?peers=a=10.0.0.1":               "since other hosts can reach 10.0.0.1:2380",
			"etcd+embedded:d?peers=a=::1,b=10.0.0.2":         "since other hosts can reach 10.0.0.2:2380",
			"etcd+embedded:d?peers=a=host&insecure=true":     `listen "": listen must be given`,
			"etcd+embedded:d?peers=a=::1&ca=x":               "must be given all or not at all",
			"etcd+embedded:d?peers=a=::1&ca=x&cert=y&key=z":  "must be a certificate and its key",
		} {
			_, err := Parse(address, "a")
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", address, err, want)
			}
		}
	})

	t.Run("a_client_asks_its_own_member_first_and_the_reaper_the_others", func(t *testing.T) {
		c, err := Parse("etcd+embedded:d?peers=a=10.0.0.1,b=10.0.0.2,c=[fd00::3]:99&clients=c=10.0.0.3:9&insecure=true",
			"b")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ClientAddress(); got != "etcd://10.0.0.2:2379,10.0.0.1:2379,10.0.0.3:9" {
			t.Error(got)
		}
		if got := c.OthersAddress(); got != "etcd://10.0.0.1:2379,10.0.0.3:9" {
			t.Error(got)
		}
		if got := c.url(c.Peers[2].Peer); got != "http://[fd00::3]:99" {
			t.Error(got)
		}
	})

	t.Run("a_member_alone_has_no_others", func(t *testing.T) {
		c, err := Parse("etcd+embedded:d?peers=a=127.0.0.1", "a")
		if err != nil || c.OthersAddress() != "" || c.MustRun() != nil {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// TestEmptyDirectory checks what an empty directory means, for each answer of the other members.
func TestEmptyDirectory(t *testing.T) {
	const query = "etcd+embedded:d?peers=a=127.0.0.1:1,b=127.0.0.1:2&clients=a=127.0.0.1:3,b=127.0.0.1:4"
	mine, other := []string{"http://127.0.0.1:1"}, []string{"http://127.0.0.1:2"}
	b := listed{Name: "b", PeerURLs: other, ClientURLs: []string{"http://127.0.0.1:4"}}
	begun, lost := listed{Name: "a", PeerURLs: mine}, listed{Name: "a", PeerURLs: mine, ClientURLs: mine}
	for name, c := range map[string]struct {
		lists       [][]listed
		begins      string // with state=new: begins, joins, or an error
		without     string // without it
		afterwards  string // the name that the member joins with
		clusterSize int
	}{
		"no_answer":            {nil, "begins", "add state=new", "", 0},
		"others_begin_too":     {[][]listed{{b, begun}}, "begins", "add state=new", "", 0},
		"it_was_added":         {[][]listed{{b, {PeerURLs: mine}}}, "joins", "joins", "a", 2},
		"it_was_never_added":   {[][]listed{{b}}, "run 'regent etcd add a'", "run 'regent etcd add a'", "", 0},
		"it_has_lost_its_data": {[][]listed{{b, lost}}, "lost its data", "lost its data", "", 0},
		"one_of_two_has_seen_it": {[][]listed{{b, begun}, {b, lost}},
			"lost its data", "lost its data", "", 0},
	} {
		for state, want := range map[string]string{"&state=new": c.begins, "": c.without} {
			config, err := Parse(query+state, "a")
			if err != nil {
				t.Fatal(err)
			}
			members, err := config.decide(c.lists)
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), want) || errors.Is(err, driver.ErrRefused) {
					t.Errorf("%s%s: %v, want %q", name, state, err, want)
				}
			case members == nil && want != "begins", members != nil && want != "joins":
				t.Errorf("%s%s: %+v, want %q", name, state, members, want)
			case members != nil && (len(members) != c.clusterSize || members[1].Name != c.afterwards):
				t.Errorf("%s%s: it joins %+v", name, state, members)
			}
		}
	}
}
