package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/regentd/regent"
)

// validateListen checks the address of the listeners. The system cannot listen on a name.
func (c *Config) validateListen() error {
	if c.Listen != "" && net.ParseIP(c.Listen) == nil {
		return refuse("listen", c.Listen,
			"must be an IP address of this host, or 0.0.0.0 for all of them, without a port")
	}
	own, ok := c.own()
	if !ok || c.Listen != "" {
		return nil
	}
	for _, address := range []string{own.Peer, own.Client} {
		if host, _, _ := net.SplitHostPort(address); net.ParseIP(host) == nil && host != "localhost" {
			return refuse("listen", "", fmt.Sprintf("must be given, as an IP address of this host or 0.0.0.0: the "+
				"member %s has the name %s in place of an IP address", own.Name, host))
		}
	}
	return nil
}

// validateTLS checks that the files can be used, and that nothing is exposed without them.
func (c *Config) validateTLS() error {
	switch given := c.CA + c.Cert + c.Key; {
	case given == "" && !c.Insecure && c.exposed() != "":
		return refuse("ca, cert, key", "", fmt.Sprintf("must be given, since other hosts can reach %s: without TLS "+
			"anybody there can read and write the store; insecure=true allows it", c.exposed()))
	case given == "":
		return nil
	case c.Insecure:
		return refuse("insecure", "true", "must be left out with ca, cert and key")
	case c.CA == "" || c.Cert == "" || c.Key == "":
		return refuse("ca, cert, key", strings.Join([]string{c.CA, c.Cert, c.Key}, ", "),
			"must be given all or not at all")
	}

	if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		return fmt.Errorf("cert %s, key %s: must be a certificate and its key: %w", c.Cert, c.Key, err)
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return fmt.Errorf("ca %s: must be a file of certificates: %w", c.CA, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return refuse("ca", c.CA, "must be a file with a certificate in PEM form")
	}
	return nil
}

// exposed returns an address that other hosts can reach, or an empty string.
func (c *Config) exposed() string {
	all := []string{}
	if c.Listen != "" {
		all = append(all, net.JoinHostPort(c.Listen, "0"))
	}
	for _, p := range c.Peers {
		all = append(all, p.Peer, p.Client)
	}
	for _, address := range all {
		host, _, _ := net.SplitHostPort(address)
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
			return strings.TrimSuffix(address, ":0")
		}
	}
	return ""
}

func refuse(key, value, rule string) error {
	return &regent.ConfigError{Key: key, Value: strconv.Quote(value), Rule: rule}
}
