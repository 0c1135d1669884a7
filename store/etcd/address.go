package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/client/pkg/v3/transport"
)

const defaultPort = "2379"

// address is a parsed address, combined with the options.
type address struct {
	endpoints      []string // host:port
	user, password string
	prefix         string      // begins and ends with a slash
	tls            *tls.Config // nil without TLS
}

// errUnreadable shows nothing of the address: any part of it may be secret.
var errUnreadable = errors.New("the address must be etcd://user:password@host:port,host:port/prefix?key=value; " +
	"in user, password, prefix and values the characters / ? # @ % must be percent-encoded")

// parseAddress parses an address. Only the hosts are split by hand: net/url knows a single one.
func parseAddress(addr string, opts Options) (*address, error) {
	rest, ok := strings.CutPrefix(addr, "etcd://")
	if !ok {
		return nil, errors.New("the address must begin with etcd://")
	}

	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, hosts := "", rest[:end]
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}

	u, err := url.Parse("etcd://" + user + "hosts" + rest[end:])
	if err != nil || u.Fragment != "" || strings.Contains(rest[end:], "@") || strings.Count(user, "@") > 1 {
		return nil, errUnreadable
	}

	a := &address{user: opts.Username, password: opts.Password}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
	}
	return a, errors.Join(a.setPrefix(u.Path), a.setEndpoints(hosts), a.setQuery(u.RawQuery, opts.TLS), a.validate())
}

func (a *address) setPrefix(path string) error {
	a.prefix = DefaultPrefix
	if path = strings.Trim(path, "/"); path == "" {
		return nil
	}

	a.prefix = "/" + path + "/"
	if strings.HasPrefix(a.prefix, DefaultPrefix) && a.prefix != DefaultPrefix {
		return &regent.ConfigError{Key: "prefix", Value: strconv.Quote(path), Rule: "must not be below " +
			strings.Trim(DefaultPrefix, "/") + ", whose store would take these registers for its own, and remove them"}
	}
	if !driver.ValidName(a.prefix) {
		return &regent.ConfigError{Key: "prefix", Value: strconv.Quote(path),
			Rule: "must be UTF-8 without control characters, of at most 250 bytes"}
	}
	return nil
}

func (a *address) setEndpoints(hosts string) error {
	for one := range strings.SplitSeq(hosts, ",") {
		endpoint := one
		if bare := strings.Trim(one, "[]"); !strings.Contains(one, ":") || net.ParseIP(bare) != nil {
			endpoint = net.JoinHostPort(bare, defaultPort)
		}

		host, port, err := net.SplitHostPort(endpoint)
		if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" || n == 0 {
			return &regent.ConfigError{Key: "host", Value: strconv.Quote(one),
				Rule: "must be host or host:port, the port a number from 1 to 65535"}
		}
		a.endpoints = append(a.endpoints, endpoint)
	}
	return nil
}

// setQuery sets what the keys of an address say, which all are about TLS.
func (a *address) setQuery(query string, cfg *tls.Config) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errUnreadable
	}

	on, files := "", transport.TLSInfo{}
	keys := map[string]*string{
		"tls": &on, "ca": &files.TrustedCAFile, "cert": &files.CertFile, "key": &files.KeyFile,
		"serverName": &files.ServerName,
	}
	for key, all := range values {
		switch {
		case keys[key] == nil:
			return &regent.ConfigError{Key: key, Value: "***",
				Rule: "is not known: the keys are tls, ca, cert, key, serverName"}
		case len(all) > 1:
			return &regent.ConfigError{Key: key, Value: strconv.Quote(strings.Join(all, ",")),
				Rule: "must be given once"}
		case all[0] == "":
			return &regent.ConfigError{Key: key, Value: `""`, Rule: "must not be empty"}
		}
		*keys[key] = all[0]
	}
	return a.setTLS(on, len(values), files, cfg)
}

// setTLS turns TLS on if the key tls says so, or if any other key is given.
func (a *address) setTLS(on string, keys int, files transport.TLSInfo, cfg *tls.Config) error {
	secure := cfg != nil || keys > 0
	if on != "" {
		given, err := strconv.ParseBool(on)
		if err != nil {
			return &regent.ConfigError{Key: "tls", Value: strconv.Quote(on), Rule: "must be true or false"}
		}
		if !given && keys > 1 {
			return &regent.ConfigError{Key: "tls", Value: on, Rule: "must be true with ca, cert, key or serverName"}
		}
		secure = given
	}
	if (files.CertFile == "") != (files.KeyFile == "") {
		return &regent.ConfigError{Key: "cert, key", Value: strconv.Quote(files.CertFile + files.KeyFile),
			Rule: "must be given both or not at all"}
	}
	if !secure {
		return nil
	}

	if cfg != nil && files.TrustedCAFile == "" && files.CertFile == "" {
		a.tls = cfg.Clone()
	} else {
		loaded, err := files.ClientConfig() // it reads the certificate again at every handshake
		if err != nil {
			return fmt.Errorf("ca, cert and key: %w", err)
		}
		loaded.MinVersion = max(loaded.MinVersion, tls.VersionTLS12)
		a.tls = loaded
	}
	if files.ServerName != "" {
		a.tls.ServerName = files.ServerName
	}
	return nil
}

func (a *address) validate() error {
	if (a.user == "") != (a.password == "") {
		return &regent.ConfigError{Key: "user, password", Value: strconv.Quote(a.user),
			Rule: "must be given both or not at all; a client certificate (cert, key) names its user itself"}
	}
	return nil
}

// exposed reports whether the password would cross a network as it is.
func (a *address) exposed() bool {
	if a.password == "" || a.tls != nil {
		return false
	}
	for _, e := range a.endpoints {
		host, _, _ := net.SplitHostPort(e)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return true
		}
	}
	return false
}

// String returns the address without user, password and keys.
func (a *address) String() string {
	text := "etcd://" + strings.Join(a.endpoints, ",")
	if a.prefix != DefaultPrefix {
		text += strings.TrimSuffix(a.prefix, "/")
	}
	return text
}

// Validate returns what is wrong with an address, without connecting. The text is that of Open.
func Validate(addr string) error {
	if _, err := parseAddress(addr, Options{}); err != nil {
		return fmt.Errorf("store %s: %w", Redact(addr), driver.Refused(err))
	}
	return nil
}

// Redact returns the parts of an address that cannot be secret.
func Redact(addr string) string {
	rest, ok := strings.CutPrefix(addr, "etcd://")
	if !ok {
		return "etcd://…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	return "etcd://" + rest
}
