package redis

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func refusedOpen(t *testing.T, url string, says ...string) {
	t.Helper()
	s, err := Open(t.Context(), url, Options{})
	if err == nil {
		s.Close()
		t.Fatalf("%s was opened", url)
	}

	t.Log(err)
	problems := map[string]driver.Problem{
		`user "poor" lacks permissions`: driver.ProblemPermission, "WRONGPASS": driver.ProblemLogin,
	}
	for _, say := range says {
		if want, known := problems[say]; known && driver.ProblemOf(err) != want {
			t.Errorf("%v is the problem %q, want %q", err, driver.ProblemOf(err), want)
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(say)) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("no clear line with %q: %v", say, err)
		}
	}
}

func TestOpenLooks(t *testing.T) {
	srv := startServer(t, "--save", "", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	warnings := func(t *testing.T, url string, want ...string) {
		t.Helper()
		got := open(t, url).Warnings()
		t.Logf("%q", got)
		if len(got) != len(want) {
			t.Fatalf("%d warnings, want %d", len(got), len(want))
		}

		for i, w := range got {
			if !strings.Contains(w, want[i]) || strings.Contains(w, "\n") {
				t.Errorf("warning %q, want one line with %q", w, want[i])
			}
		}
	}

	t.Run("eviction_and_no_persistence_are_warnings", func(t *testing.T) {
		warnings(t, srv.url(), "maxmemory-policy is allkeys-lru", "keeps nothing on disk")
	})

	t.Run("snapshots_alone_are_a_warning", func(t *testing.T) {
		cli(t, srv, "CONFIG", "SET", "maxmemory-policy", "noeviction", "save", "3600 1")
		warnings(t, srv.url(), "snapshots only")
	})

	t.Run("what_could_not_be_checked_is_said", func(t *testing.T) {
		cli(t, srv, "ACL", "SETUSER", "blind", "on", ">p", "~*", "&*", "+@all", "-info", "-config")
		warnings(t, "redis://blind:p@"+srv.addr(), "scripts may not call INFO", "could not be checked")
		cli(t, srv, "ACL", "SETUSER", "blind", "+info")
		warnings(t, "redis://blind:p@"+srv.addr(), "could not be checked")
	})

	t.Run("a_primary_that_goes_on_without_its_replicas_is_a_warning", func(t *testing.T) {
		primary := startServer(t, "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
		warnings(t, primary.url())
		startReplica(t, primary, "127.0.0.1", strconv.Itoa(primary.port))
		warnings(t, primary.url(), "set min-replicas-to-write 1 and min-replicas-max-lag 2")
		cli(t, primary, "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "2")
		warnings(t, primary.url())
	})

	t.Run("a_primary_behind_sentinel_is_taken_for_replicated", func(t *testing.T) {
		sentinel := startSentinel(t, startServer(t, "--appendonly", "yes"), 2*time.Second)
		warnings(t, "redis://"+sentinel.addr()+"?sentinel=mymaster", "min-replicas-to-write")
	})

	t.Run("a_server_that_keeps_everything_has_no_warning", func(t *testing.T) {
		cli(t, srv, "CONFIG", "SET", "appendonly", "yes")
		warnings(t, srv.url())
	})

	t.Run("missing_permissions_are_an_error", func(t *testing.T) {
		for _, right := range []string{"eval", "evalsha", "set", "get", "pexpire", "del", "zadd", "zrange", "publish",
			"subscribe", "persist", "time"} {
			cli(t, srv, "ACL", "SETUSER", "poor", "reset", "on", ">p", "~*", "&*", "+@all", "-"+right)
			refusedOpen(t, "redis://poor:p@"+srv.addr(), `user "poor" lacks permissions`, right)
		}
		cli(t, srv, "ACL", "SETUSER", "poor", "reset", "on", ">p", "~seat*", "&*", "+@all")
		refusedOpen(t, "redis://poor:p@"+srv.addr(), `user "poor" lacks permissions`, "key")
		cli(t, srv, "ACL", "SETUSER", "poor", "reset", "on", ">p", "~*", "&other", "+@all")
		refusedOpen(t, "redis://poor:p@"+srv.addr(), `user "poor" lacks permissions`, "channel")
	})

	t.Run("a_permission_that_is_revoked_later_is_not_taken_for_foreign_data", func(t *testing.T) {
		cli(t, srv, "ACL", "SETUSER", "poor", "reset", "on", ">p", "~*", "&*", "+@all")
		s := open(t, "redis://poor:p@"+srv.addr())
		cli(t, srv, "ACL", "SETUSER", "poor", "resetkeys")
		_, one := s.Get(t.Context(), "seat")
		many := s.Refresh(t.Context(), []driver.Record{{Name: "seat"}})[0].Err
		for _, err := range []error{one, many} {
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "may not read it: NOPERM") ||
				strings.Contains(err.Error(), "is not a register of Regent") {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("a_server_that_takes_no_writes_for_a_while_is_not_refused_for_good", func(t *testing.T) {
		alone := startServer(t, "--min-replicas-to-write", "1")
		full := startServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
		for _, url := range []string{alone.url(), full.url()} {
			if _, err := Open(t.Context(), url, Options{}); err == nil || errors.Is(err, driver.ErrRefused) {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("a_wrong_password_is_an_error", func(t *testing.T) {
		refusedOpen(t, "redis://poor:wrong@"+srv.addr(), "WRONGPASS")
	})

	t.Run("an_old_server_is_an_error", func(t *testing.T) {
		refusedOpen(t, "redis://"+oldServer(t, "6.0.16"), "too old", "6.0.16", "6.2")
	})

	t.Run("nobody_there_is_an_error", func(t *testing.T) {
		refusedOpen(t, "redis://127.0.0.1:"+strconv.Itoa(freePort()), "connection refused")
	})
}

// oldServer greets as Redis of some version does, and knows nothing else.
func oldServer(t *testing.T, version string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()

		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}

			n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
			var words []string
			for range n {
				r.ReadString('\n')
				word, _ := r.ReadString('\n')
				words = append(words, strings.TrimSpace(word))
			}

			if len(words) > 0 && words[0] == "HELLO" {
				fmt.Fprintf(c, "%%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$%d\r\n%s\r\n"+
					"$5\r\nproto\r\n:3\r\n", len(version), version)
			} else {
				fmt.Fprint(c, "-ERR unknown command\r\n")
			}
		}
	}

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()

	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	port := freePort()
	srv := startServer(t, "--save", "", "--tls-port", strconv.Itoa(port), "--tls-cert-file", file("cert.pem"),
		"--tls-key-file", file("key.pem"),
		"--tls-ca-cert-file", file("cert.pem"), "--tls-auth-clients", "optional")

	url := fmt.Sprintf("rediss://127.0.0.1:%d", port)

	t.Run("a_certificate_of_nobody_known_is_refused", func(t *testing.T) {
		refusedOpen(t, url, "certificate")
	})

	for name, opened := range map[string]func() (*Store, error){
		"files": func() (*Store, error) { return Open(t.Context(), url+"?ca="+file("cert.pem"), Options{}) },
		"options": func() (*Store, error) {
			return Open(t.Context(), url,
				Options{TLS: trusting(t, file("cert.pem"))})
		},
		"both_ends": func() (*Store, error) {
			cli(t, srv, "CONFIG", "SET", "tls-auth-clients", "yes")
			return Open(t.Context(), url+"?ca="+file("cert.pem")+"&cert="+file("cert.pem")+"&key="+file("key.pem"),
				Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cli(t, srv, "CONFIG", "SET", "tls-auth-clients", "optional")
			s, err := opened()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()

			notices := s.Subscribe(t.Context(), driver.Prefix(name))
			await(t, "subscribed", 5*time.Second, func() bool { return took(notices) })
			storetest.Swap(t, s, held(name, "a", 1))
			get(t, s, name)
			next(t, notices)

			if !s.conns.ready() {
				t.Error("the connection is not known to be there")
			}
		})
	}
}

func trusting(t *testing.T, ca string) *tls.Config {
	b, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// writeCertificate writes one that signs itself, for 127.0.0.1.
func writeCertificate(t *testing.T, dir string) {
	key, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}

	cert, err2 := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	private, err3 := x509.MarshalPKCS8PrivateKey(key)
	err4 := os.WriteFile(filepath.Join(dir, "cert.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600)
	err5 := os.WriteFile(filepath.Join(dir, "key.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
}

func TestCheckOver(t *testing.T) {
	srv := startServer(t, "--save", "", "--appendonly", "no")

	t.Run("an_open_only_connects_and_the_check_warns_later", func(t *testing.T) {
		found := make(chan string, 8)
		began := time.Now()
		s, err := Open(t.Context(), srv.url(),
			Options{CheckOver: 400 * time.Millisecond, OnWarning: func(w string) { found <- w }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()

		notices := s.Subscribe(t.Context(), driver.Prefix("x"))
		await(t, "subscribed", 10*time.Second, func() bool { return took(notices) })
		if w := <-found; !strings.Contains(w, "keeps nothing on disk") || time.Since(began) < 400*time.Millisecond {
			t.Errorf("%q after %v", w, time.Since(began))
		}

		// The check has left the store's own subscription alone.
		storetest.Swap(t, open(t, srv.url()), held("x", "a", 1))
		if got := next(t, notices); got.Name != "x" {
			t.Errorf("%+v is notified of", got)
		}
	})

	t.Run("what_an_open_would_refuse_is_a_warning", func(t *testing.T) {
		if out := cli(t, srv, "ACL", "SETUSER", "poor", "on", ">p", "~*", "&*", "+@all",
			"-publish"); !strings.Contains(out, "OK") {
			t.Fatal(out)
		}

		found := make(chan string, 8)
		s, err := Open(t.Context(), "redis://poor:p@"+srv.addr(),
			Options{CheckOver: time.Millisecond, OnWarning: func(w string) { found <- w }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()

		if w := <-found; !strings.Contains(w, "lacks permissions") || !strings.Contains(w, "PUBLISH") {
			t.Errorf("it warns: %q", w)
		}
	})

	t.Run("a_store_that_is_closed_before_checks_nothing", func(t *testing.T) {
		s, err := Open(t.Context(), srv.url(),
			Options{CheckOver: time.Hour, OnWarning: func(w string) { t.Errorf("it warns: %s", w) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
