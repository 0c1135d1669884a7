package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	a.key, a.cert = key, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.write("ca", a.cert, a.key)

	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// write signs a certificate, and writes it and its key.
func (a *authority) write(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	a.t.Helper()
	signed, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}

	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: signed},
		".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// issue makes a certificate for a node on this machine, and a configuration file that names it.
func (a *authority) issue(name string) (config string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}

	a.next++
	a.write(name, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.next),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	config = a.file(name + ".yaml")

	text := fmt.Sprintf("tlsCert: %s\ntlsKey: %s\ntlsCA: %s\n", a.file(name+".crt"), a.file(name+".key"),
		a.file("ca.crt"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}

	return config
}

// client returns a client that trusts the authority. It has a certificate if one is named.
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	ca, err := os.ReadFile(a.file("ca.crt"))
	if err != nil {
		a.t.Fatal(err)
	}

	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AppendCertsFromPEM(ca)

	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}

	transport := &http.Transport{TLSClientConfig: conf}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 40 * time.Second}
}

// TestCertificates runs nodes that prove themselves to each other by certificates.
func TestCertificates(t *testing.T) {
	ask := func(t *testing.T, client *http.Client, method, url, body string, into any) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		b, _ := io.ReadAll(resp.Body)
		_ = json.Unmarshal(b, into)
		return resp.StatusCode
	}
	for name, token := range map[string][]string{"without_any_token": nil, "beside_a_token": {"REGENT_TOKEN=hunter2"}} {
		t.Run("polls_run_between_nodes_with_certificates_"+name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			store := sqliteStore(t)
			node := func(name string, more ...string) (*daemon, string) {
				d := start(t, name, store, token, append([]string{"--config", ca.issue(name)}, more...)...)
				return d, "https" + strings.TrimPrefix(d.url, "http")
			}
			a, leader := node("a", "--worker=false")
			a.await("became leader")
			b, standby := node("b")
			b.await(`msg="leader changed"`)
			ca.issue("operator")
			known, stranger := ca.client("operator"), ca.client("")
			define := fmt.Sprintf(`{"kind":"http","target":%q,"interval":"1h","timeout":"20s"}`, webTarget(t))
			task := `{"election":"coordinator","epoch":1,"tasks":[{"id":"x","kind":"tcp",` +
				`"payload":{"target":"127.0.0.1:1"}}]}`

			for _, url := range []string{leader, standby} {
				for _, r := range []struct{ method, path, body string }{{"PUT", "/v1/polls/p", define},
					{"DELETE", "/v1/polls/p", ""}, {"POST", "/v1/polls/p/run", `{"epoch":1}`},
					{"POST", "/v1/elections/coordinator/pause", `{"epoch":1}`}} {
					var answer map[string]any
					if code := ask(t, stranger, r.method, url+r.path, r.body,
						&answer); code != http.StatusUnauthorized {
						t.Errorf("%s %s by a stranger: %d %v", r.method, r.path, code, answer)
					}
				}
			}

			for _, path := range []string{"/v1/tasks", "/v1/tasks/results"} {
				var answer map[string]any
				if code := ask(t, stranger, "POST", standby+path, task, &answer); code != http.StatusUnauthorized {
					t.Errorf("%s by a stranger: %d %v", path, code, answer)
				}
			}

			var answer map[string]any
			if code := ask(t, known, "PUT", standby+"/v1/polls/p", define, &answer); code != http.StatusCreated {
				t.Fatalf("%d %v", code, answer)
			}

			var run struct{ Outcome, Worker, Message string }
			code := ask(t, known, "POST", standby+"/v1/polls/p/run", `{"epoch":1}`, &run)

			for limit := time.Now().Add(30 * time.Second); strings.Contains(run.Message, "no worker takes it") &&
				time.Now().Before(limit); { // b is not known yet
				run.Message = ""
				code = ask(t, known, "POST", standby+"/v1/polls/p/run", `{"epoch":1}`, &run)
			}

			if code != http.StatusOK || run.Outcome != "ok" || run.Worker != "b" {
				t.Errorf("%d %+v", code, run)
			}

			// Anybody may read.
			var members struct{ Status string }
			for limit := time.Now().Add(60 * time.Second); members.Status != "healthy"; {
				if code := ask(t, stranger, "GET", standby+"/v1/members", "", &members); code != http.StatusOK ||
					time.Now().After(limit) {
					t.Fatalf("%d %+v", code, members)
				}
			}

			b.stop()
			a.stop()
		})
	}
}
