package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

const (
	maxPEM    = 1 << 20          // bytes of a file of certificates, or of a key
	lookAgain = 10 * time.Second // how often the files are looked at
)

// peers is how this node is reached, and how it reaches others: by HTTP, or, if it has a certificate, by HTTPS. It reads
// its files again when they change. Connections that are open stay as they are.
type peers struct {
	cert, key, ca string
	log           *slog.Logger
	current       atomic.Pointer[identity]

	mu     sync.Mutex // one reload at a time
	failed string     // why the files could not be used when they were last read
}

// identity is what was in the files.
type identity struct {
	digest [sha256.Size]byte
	server *tls.Config // nil without a certificate
	client *http.Transport
}

// newPeers reads the files that the configuration names.
func newPeers(s *config.Settings, log *slog.Logger) (*peers, error) {
	p := &peers{cert: s.TLSCert, key: s.TLSKey, ca: s.TLSCA, log: log}
	id, err := p.read()
	if err != nil {
		return nil, err
	}
	p.current.Store(id)
	return p, nil
}

func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute, TLSClientConfig: secure}
}

// read makes an identity of the files.
func (p *peers) read() (*identity, error) {
	if p.cert == "" {
		return &identity{client: newTransport(nil)}, nil
	}
	files := map[string]string{"tlsCert": p.cert, "tlsKey": p.key}
	if p.ca != "" {
		files["tlsCA"] = p.ca
	}
	data, sum := map[string][]byte{}, sha256.New()
	for _, key := range []string{"tlsCert", "tlsKey", "tlsCA"} {
		if files[key] == "" {
			continue
		}
		b, err := config.ReadRegular(files[key], maxPEM)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		data[key] = b
		one := sha256.Sum256(b)
		sum.Write(one[:])
	}

	pair, err := tls.X509KeyPair(data["tlsCert"], data["tlsKey"])
	if err != nil {
		return nil, fmt.Errorf("tlsCert %s, tlsKey %s: %w", p.cert, p.key, err)
	}
	// A session that is resumed was verified by what the files held before.
	server := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		NextProtos: []string{"h2", "http/1.1"}}
	client := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if p.ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data["tlsCA"]) {
			return nil, fmt.Errorf("tlsCA %s: there is no certificate in it", p.ca)
		}
		client.RootCAs = pool
		server.ClientCAs, server.ClientAuth = pool, tls.VerifyClientCertIfGiven
	}
	return &identity{digest: [sha256.Size]byte(sum.Sum(nil)), server: server, client: newTransport(client)}, nil
}

// reload reads the files again, and uses what is in them if it has changed. If it cannot be used, it goes on with what was
// there before, and says so once.
func (p *peers) reload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.read()
	if err != nil {
		if p.failed != err.Error() {
			p.log.Warn("certificates cannot be reloaded: the former ones stay in use", "error", err)
		}
		p.failed = err.Error()
		return
	}
	p.failed = ""
	if old := p.current.Load(); old.digest != id.digest {
		p.current.Store(id)
		old.client.CloseIdleConnections()
		p.log.Info("certificates reloaded", "tlsCert", p.cert)
	}
}

// watch reloads the files when they have changed, until ctx ends.
func (p *peers) watch(ctx context.Context) {
	if p.cert == "" {
		return
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.reload()
		case <-ctx.Done():
			return
		}
	}
}

// server returns the TLS configuration of the listener; nil for none.
func (p *peers) server() *tls.Config {
	id := p.current.Load()
	if id.server == nil {
		return nil
	}
	c := id.server.Clone() // it tells which client certificates are asked for; a handshake goes by the current one
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.current.Load().server, nil }
	return c
}

// client returns what other nodes are asked with.
func (p *peers) client() (client *http.Client, scheme string) {
	// A redirect could send tasks elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if scheme = "http"; p.cert != "" {
		scheme = "https"
	}
	return &http.Client{Transport: p, CheckRedirect: stay}, scheme
}

// RoundTrip implements [http.RoundTripper].
func (p *peers) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.current.Load().client.RoundTrip(r)
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (p *peers) CloseIdleConnections() { p.current.Load().client.CloseIdleConnections() }
