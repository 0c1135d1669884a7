package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

// transport is how this node is reached, and how it reaches others: nil and http, unless it has a certificate.
func transport(s *config.Settings) (server *tls.Config, client *http.Client, scheme string, err error) {
	t := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute}
	// A redirect could send tasks, and the token, elsewhere.
	client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if s.TLSCert == "" {
		return nil, client, "http", nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		return nil, nil, "", fmt.Errorf("tlsCert %s, tlsKey %s: %w", s.TLSCert, s.TLSKey, err)
	}
	server = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	t.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.TLSCA == "" {
		return server, client, "https", nil
	}
	pem, err := os.ReadFile(s.TLSCA)
	if err != nil {
		return nil, nil, "", fmt.Errorf("tlsCA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, "", fmt.Errorf("tlsCA %s: there is no certificate in it", s.TLSCA)
	}
	t.TLSClientConfig.RootCAs = pool
	server.ClientCAs, server.ClientAuth = pool, tls.VerifyClientCertIfGiven
	return server, client, "https", nil
}
