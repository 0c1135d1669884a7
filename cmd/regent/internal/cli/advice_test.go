package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

// TestCertificateAdvice asks real servers whose certificate is refused, each for another reason.
func TestCertificateAdvice(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		valid   time.Duration // from now on
		host    string
		trusted bool
		want    string
	}{
		"nobody_known_has_signed_it": {day, "127.0.0.1", false, "--tls-ca"},
		"it_has_expired":             {-day, "127.0.0.1", true, "valid now"},
		"it_is_for_another_host":     {day, "127.0.0.2", true, "name or an address that its certificate has"},
	} {
		t.Run(name, func(t *testing.T) {
			node := secured(t, time.Now().Add(c.valid), net.ParseIP(c.host), c.trusted)
			_, err := node.LocalStatus(t.Context())
			s := &session{cluster: node}
			if got := s.advice(t.Context(), err); !strings.Contains(got, c.want) {
				t.Errorf("%v: %q, want %q in it", err, got, c.want)
			}
		})
	}
}

// secured returns a node whose certificate is valid until a time, for one address.
func secured(t *testing.T, until time.Time, host net.IP, trusted bool) *cluster.Node {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour * 1000), NotAfter: until,
		IPAddresses: []net.IP{host}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // each handshake fails
	server.StartTLS()
	t.Cleanup(server.Close)

	pool := x509.NewCertPool()
	if trusted {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(certificate)
	}
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &cluster.Node{Base: base, Client: &http.Client{Transport: transport}}
}
