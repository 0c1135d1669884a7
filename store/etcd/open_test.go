package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestAddress(t *testing.T) {
	a, err := parseAddress("etcd://u%40x:p%2Fq@h1,h2:9,[::1]:7,[::2],::3/app/leaders/?tls=true", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"h1:2379", "h2:9", "[::1]:7", "[::2]:2379", "[::3]:2379"}; !slices.Equal(a.endpoints, want) {
		t.Errorf("endpoints %q, want %q", a.endpoints, want)
	}
	if a.user != "u@x" || a.password != "p/q" || a.prefix != "/app/leaders/" || a.tls == nil {
		t.Errorf("parsed %+v", a)
	}
	if got, want := a.String(), "etcd://h1:2379,h2:9,[::1]:7,[::2]:2379,[::3]:2379/app/leaders"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	if got, want := Redact("etcd://u:p@h1,h2/app?key=x"), "etcd://***@h1,h2/app"; got != want {
		t.Errorf("redacted as %s, want %s", got, want)
	}

	a, err = parseAddress("etcd://127.0.0.1", Options{Username: "u", Password: "p", TLS: &tls.Config{ServerName: "x"}})
	if err != nil || a.user != "u" || a.prefix != DefaultPrefix || a.tls == nil || a.tls.ServerName != "x" {
		t.Errorf("with options: %+v, %v", a, err)
	}
}

func TestBadAddresses(t *testing.T) {
	for _, c := range []struct{ name, addr, want string }{
		{"another_scheme", "mysql://u:s3cret@h", "must begin with etcd://"},
		{"no_host", "etcd://", `host ""`},
		{"an_empty_host", "etcd://a,,b", `host ""`},
		{"a_bad_port", "etcd://u:s3cret@h:99999", `host "h:99999": host must be host or host:port`},
		{"a_port_that_is_no_number", "etcd://h:http", `host "h:http"`},
		{"a_password_alone", "etcd://:s3cret@h", "must be given both"},
		{"a_user_alone", "etcd://s3cret@h", "must be given both"},
		{"an_unknown_key", "etcd://h?password=s3cret", "password ***: password is not known: the keys are tls"},
		{"a_key_twice", "etcd://h?tls=true&tls=true", "must be given once"},
		{"an_empty_key", "etcd://h?ca=", `ca "": ca must not be empty`},
		{"tls_maybe", "etcd://h?tls=maybe", `tls "maybe": tls must be true or false`},
		{"tls_off_with_a_ca", "etcd://h?tls=false&ca=x", "must be true with ca"},
		{"a_certificate_without_its_key", "etcd://h?cert=x", "must be given both or not at all"},
		{"a_missing_ca", "etcd://h?ca=no-such-file", "no-such-file"},
		{"a_control_character_in_the_prefix", "etcd://h/a%00b", "without control characters"},
		{"a_prefix_below_the_default_one", "etcd://h/regent/app", "must not be below regent"},
		{"an_unescaped_password", "etcd://u:s3/cret@h", "percent-encoded"},
		{"a_fragment", "etcd://u:s3cret@h/x#y", "percent-encoded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, opened := Open(t.Context(), c.addr, Options{})
			for _, err := range []error{opened, Validate(c.addr)} {
				if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want ErrRefused with %q", err, c.want)
				}
				if err != nil && strings.Contains(err.Error(), "cret") && c.name != "a_user_alone" {
					t.Errorf("the password is in the error: %v", err)
				}
			}
		})
	}
}

// withUsers starts a cluster that asks for a user, as docs/STORES.md says.
func withUsers(t *testing.T) []*etcdtest.Member {
	t.Helper()
	all := cluster(t, 1)
	client := plain(t, all...)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.UserAdd(ctx, "root", "r00t"))
	must(client.UserGrantRole(ctx, "root", "root"))
	for role, permission := range map[string]clientv3.PermissionType{
		"writer": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead),
	} {
		must(client.RoleAdd(ctx, role))
		end := clientv3.GetPrefixRangeEnd(DefaultPrefix)
		must(client.RoleGrantPermission(ctx, role, DefaultPrefix, end, permission))
		must(client.UserAdd(ctx, role, "s3cret"))
		must(client.UserGrantRole(ctx, role, role))
	}
	must(client.AuthEnable(ctx))
	return all
}

func TestUsers(t *testing.T) {
	t.Parallel()
	all := withUsers(t)
	addr := func(user string) string { return strings.Replace(etcdtest.Address(all, ""), "://", "://"+user, 1) }

	for _, c := range []struct{ name, addr, want string }{
		{"no_user", addr(""), "asks for a user"},
		{"a_wrong_password", addr("writer:wr0ng-s3cret@"), "authentication failed"},
		{"a_user_who_may_only_read", addr("reader:s3cret@"), "role with readwrite permission for the prefix"},
		{"another_prefix", addr("writer:s3cret@") + "/other", "role with readwrite permission for the prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.addr, Options{})
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want ErrRefused with %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}

	s := open(t, addr("writer:s3cret@"))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)

	t.Run("a_reader_reads", func(t *testing.T) {
		r := storetest.Opened[*Store](t)(Open(t.Context(), addr("reader:s3cret@"), Options{NoProbe: true}))
		if got, err := r.Get(t.Context(), "a"); err != nil || got.Rev != l.Rev {
			t.Errorf("Get: %+v, %v", got, err)
		}
		if _, err := r.Swap(t.Context(), l); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Swap: %v, want ErrRefused", err)
		}
	})

	t.Run("a_log_in_that_the_server_has_forgotten", func(t *testing.T) {
		all[0].Kill() // tokens are in its memory
		if err := all[0].Start(); err != nil {
			t.Fatal(err)
		}
		drivertest.Eventually(t, "it is connected again", func() bool {
			_, err := s.Get(drivertest.Short(t), "a")
			if errors.Is(err, rpctypes.ErrInvalidAuthToken) {
				t.Fatalf("Get: %v, want a new log-in", err)
			}
			return err == nil
		})
		l.Nonce++
		l = storetest.Swap(t, s, l)
		drivertest.Listens(t, s, woken)
	})

	t.Run("a_register_is_removed", func(t *testing.T) {
		l.Holder = driver.Identity{}
		if err := s.Remove(t.Context(), storetest.Swap(t, s, l)); err != nil {
			t.Error(err)
		}
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := drivertest.Certificates(t)
	all := cluster(t, 1, "--cert-file="+cert, "--key-file="+key, "--trusted-ca-file="+ca, "--client-cert-auth")
	otherCA, _, _ := drivertest.Certificates(t)
	addr := func(pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return etcdtest.Address(all, "?"+q.Encode())
	}

	s := open(t, addr("ca", ca, "cert", cert, "key", key))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)

	for _, c := range []struct{ name, addr, want string }{
		{"a_server_of_another_ca", addr("ca", otherCA, "cert", cert, "key", key), "x509"},
		{"another_server_name", addr("ca", ca, "cert", cert, "key", key, "serverName", "other"), "other"},
		{"no_tls", addr("tls", "false"), "open store etcd://"}, // the error varies
		{"no_client_certificate", addr("ca", ca), "open store etcd://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), drivertest.Limit)
			defer cancel()
			_, err := Open(ctx, c.addr, Options{})
			if err == nil || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want %q, and a retry may help", err, c.want)
			}
		})
	}
}

// TestExposedPassword warns of a password that anybody on the network can read.
func TestExposedPassword(t *testing.T) {
	for addr, want := range map[string]bool{
		"etcd://u:p@10.0.0.1": true, "etcd://u:p@localhost,db": true,
		"etcd://u:p@db?tls=true": false, "etcd://db": false, "etcd://u:p@127.0.0.1,localhost,[::1]": false,
	} {
		a, err := parseAddress(addr, Options{})
		if err != nil || a.exposed() != want {
			t.Errorf("%s: exposed %v, %v", Redact(addr), !want, err)
		}
	}
}

// TestUnreachable opens a port where nobody listens, and one where something answers that is no etcd. The error has the
// words of the network, and none of gRPC.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	opened := func(want string) {
		t.Helper()
		_, err := Open(t.Context(), "etcd://"+at, Options{})
		if err == nil || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "desc =") {
			t.Errorf("Open: %v, want %q in plain words", err, want)
		}
	}

	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))) // how a client begins
			_, _ = io.WriteString(conn, "this is no etcd\r\n")
			_ = conn.Close()
		}
	}()
	opened("did not answer as etcd does")
	_ = l.Close()
	opened("connection refused")
}

// TestPrefixBelowAnother opens a store whose prefix is below, beside and above that of a store with a member.
func TestPrefixBelowAnother(t *testing.T) {
	upper := fresh()
	m := held(driver.MemberRegister("a"), "a", 1)
	storetest.Swap(t, open(t, upper), m)

	for addr, want := range map[string]bool{upper + "/a/b": true, upper + "b": false, upper: false} {
		var warned []string
		s, err := Open(t.Context(), addr, Options{OnWarning: func(w string) { warned = append(warned, w) }})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if got := strings.Contains(strings.Join(warned, " "), "another store above it"); got != want {
			t.Errorf("%s: warnings %q", addr, warned)
		}
	}
}
