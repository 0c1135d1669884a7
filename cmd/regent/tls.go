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
	maxPEM       = 1 << 20          // bytes of a file of certificates, or of a key
	pollInterval = 10 * time.Second // how often the files are read again
)

// certificates configures the listener of a node, and the client by which it asks other nodes: for HTTPS if tlsCert is
// set, else for HTTP. It reloads the files when they change. Open connections stay as they are.
type certificates struct {
	cert, key, ca string
	log           *slog.Logger
	current       atomic.Pointer[identity]

	mu     sync.Mutex // one reload at a time
	failed string     // why the files could not be used when they were last read
}

// identity is the content of the files.
type identity struct {
	digest [sha256.Size]byte
	server *tls.Config // nil without a certificate
	client *http.Transport
}

// newCertificates reads the files that the configuration names.
func newCertificates(s *config.Settings, log *slog.Logger) (*certificates, error) {
	c := &certificates{cert: s.TLSCert, key: s.TLSKey, ca: s.TLSCA, log: log}
	id, err := c.read()
	if err != nil {
		return nil, err
	}

	c.current.Store(id)
	return c, nil
}

// newTransport returns a transport to other nodes.
func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: time.Minute,
		TLSClientConfig:       secure,
	}
}

// read reads the files and returns their identity.
func (c *certificates) read() (*identity, error) {
	if c.cert == "" {
		return &identity{client: newTransport(nil)}, nil
	}

	data, digest, err := c.readFiles()
	if err != nil {
		return nil, err
	}

	pair, err := tls.X509KeyPair(data["tlsCert"], data["tlsKey"])
	if err != nil {
		return nil, fmt.Errorf("tlsCert %s, tlsKey %s: %w", c.cert, c.key, err)
	}

	server := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		// A resumed session would be verified by the former content of the files.
		SessionTicketsDisabled: true,
	}
	client := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}

	if c.ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data["tlsCA"]) {
			return nil, fmt.Errorf("tlsCA %s: there is no certificate in it", c.ca)
		}

		client.RootCAs = pool
		server.ClientCAs = pool
		server.ClientAuth = tls.VerifyClientCertIfGiven
	}

	return &identity{digest: digest, server: server, client: newTransport(client)}, nil
}

// readFiles returns the content of the files by their keys, and a digest of all of them.
func (c *certificates) readFiles() (map[string][]byte, [sha256.Size]byte, error) {
	data := map[string][]byte{}
	sum := sha256.New()
	for _, file := range []struct{ key, path string }{{"tlsCert", c.cert}, {"tlsKey", c.key}, {"tlsCA", c.ca}} {
		if file.path == "" {
			continue
		}
		content, err := config.ReadRegular(file.path, maxPEM)
		if err != nil {
			return nil, [sha256.Size]byte{}, fmt.Errorf("%s: %w", file.key, err)
		}

		data[file.key] = content
		one := sha256.Sum256(content)
		sum.Write(one[:])
	}

	return data, [sha256.Size]byte(sum.Sum(nil)), nil
}

// reload reads the files again, and uses them if they have changed. If they cannot be used, the former content stays in
// use, and a warning is logged once.
func (c *certificates) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()

	id, err := c.read()
	if err != nil {
		if c.failed != err.Error() {
			c.log.Warn("certificates cannot be reloaded: the former ones stay in use", "error", err)
		}
		c.failed = err.Error()
		return
	}

	c.failed = ""
	if old := c.current.Load(); old.digest != id.digest {
		c.current.Store(id)
		old.client.CloseIdleConnections()
		c.log.Info("certificates reloaded", "tlsCert", c.cert)
	}
}

// watch reloads the files when they have changed, until ctx ends.
func (c *certificates) watch(ctx context.Context) {
	if c.cert == "" {
		return
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			c.reload()
		case <-ctx.Done():
			return
		}
	}
}

// server returns the TLS configuration of the listener; nil for none.
func (c *certificates) server() *tls.Config {
	id := c.current.Load()
	if id.server == nil {
		return nil
	}

	// The clone says whether client certificates are asked for. Each handshake uses the current configuration.
	listener := id.server.Clone()
	listener.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return c.current.Load().server, nil
	}

	return listener
}

// client returns the client by which this node asks others, and the scheme of their addresses.
func (c *certificates) client() (client *http.Client, scheme string) {
	// A redirect could send tasks elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	scheme = "http"

	if c.cert != "" {
		scheme = "https"
	}
	return &http.Client{Transport: c, CheckRedirect: stay}, scheme
}

// RoundTrip implements [http.RoundTripper]. It uses the current certificates.
func (c *certificates) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.current.Load().client.RoundTrip(r)
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (c *certificates) CloseIdleConnections() { c.current.Load().client.CloseIdleConnections() }
