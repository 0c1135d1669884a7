package embedded

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/drivertest"
)

// TestDecide checks what an empty directory means, by what other members list.
func TestDecide(t *testing.T) {
	const peers = "etcd+embedded:/x?peers=a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3"
	own := listed{PeerURLs: []string{"http://127.0.0.1:1"}}
	other := listed{PeerURLs: []string{"http://127.0.0.1:2"}, Name: "b", ClientURLs: []string{"http://127.0.0.1:12"}}
	named, ran := own, own
	named.Name = "a"
	ran.Name, ran.ClientURLs = "a", []string{"http://127.0.0.1:11"}

	const lost = "it has lost its data"
	for name, c := range map[string]struct {
		address string
		lists   [][]listed
		joins   bool // the cluster of the others
		refused string
	}{
		"nobody_answers":              {peers + "&state=new", nil, false, ""},
		"nobody_says_new":             {peers, nil, false, "For the first start of a new cluster add state=new"},
		"it_has_run_before":           {peers + "&state=new", [][]listed{{other, ran}}, false, lost},
		"one_of_them_says_so":         {peers, [][]listed{{other, named}, {ran}}, false, lost},
		"it_was_added":                {peers, [][]listed{{other, own}}, true, ""},
		"others_know_no_such_member":  {peers + "&state=new", [][]listed{{other}}, false, "is no member of it"},
		"the_cluster_has_never_begun": {peers + "&state=new", [][]listed{{named}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := Parse(c.address, "a")
			if err != nil {
				t.Fatal(err)
			}

			members, err := config.decide(c.lists)
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, %v, want %q", members, err, c.refused)
				}
			case err != nil || (members != nil) != c.joins:
				t.Errorf("%v, %v, joins %v", members, err, c.joins)
			case c.joins && (len(members) != 2 || members[1].Name != "a"):
				t.Errorf("it joins %+v", members)
			}
		})
	}
}

// TestOnlyMembersWithACertificateAreBelieved asks a process at the address of a member for the list of the cluster.
func TestOnlyMembersWithACertificateAreBelieved(t *testing.T) {
	ca, cert, key := drivertest.Certificates(t)
	_, otherCert, otherKey := drivertest.Certificates(t)
	for name, c := range map[string]struct {
		cert, key string
		lists     int
	}{
		"of_the_authority": {cert, key, 1}, "of_another_one": {otherCert, otherKey, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(c.cert, c.key)
			if err != nil {
				t.Fatal(err)
			}
			b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `[{"peerURLs": ["https://127.0.0.1:1"], "name": "a"}]`)
			}))
			b.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			b.StartTLS()
			defer b.Close()

			config, err := Parse("etcd+embedded:/x?peers=a=127.0.0.1:1,b="+b.Listener.Addr().String()+"&ca="+ca+
				"&cert="+cert+"&key="+key, "a")
			if err != nil {
				t.Fatal(err)
			}
			if lists, err := config.ask(t.Context()); err != nil || len(lists) != c.lists {
				t.Errorf("%+v, %v, want %d lists", lists, err, c.lists)
			}
		})
	}
}
