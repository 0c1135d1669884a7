package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	scheme      = "nats://"
	defaultPort = "4222"
)

// address is a parsed address, combined with the options.
type address struct {
	servers        []string // host:port
	user, password string
	token          string
	stream         string
	tls            *tls.Config // nil without TLS
	keys           map[string]string
	replicas       int // 0 if the address does not say
}

// errUnreadable shows nothing of the address: any part of it may be secret.
var errUnreadable = errors.New("the address must be nats://user:password@host:port,host:port/STREAM?key=value; " +
	"in user, password and values the characters / ? # @ % must be percent-encoded")

// keys are those that an address may have.
var keys = []string{"tls", "ca", "cert", "key", "serverName", "creds", "nkey", "domain", "apiPrefix", "inbox",
	"replicas"}

// parseAddress parses an address. net/url knows a single host, so it gets a placeholder for them.
func parseAddress(addr string, opts Options) (*address, error) {
	rest, ok := strings.CutPrefix(addr, scheme)
	if !ok {
		return nil, errors.New("the address must begin with " + scheme)
	}

	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	login, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		login, hosts = authority[:at+1], authority[at+1:]
	}

	u, err := url.Parse(scheme + login + "hosts" + tail)
	if err != nil || u.Fragment != "" || strings.ContainsRune(tail, '@') || strings.Count(login, "@") > 1 {
		return nil, errUnreadable
	}

	a := &address{user: opts.Username, password: opts.Password, keys: map[string]string{}}
	a.setLogin(u.User)
	return a, errors.Join(a.setStream(u.Path), a.setServers(hosts), a.setKeys(u.RawQuery), a.setTLS(opts.TLS),
		a.validate())
}

// setLogin takes a user without a password for a token, as the clients of NATS do.
func (a *address) setLogin(user *url.Userinfo) {
	if user == nil {
		return
	}
	password, two := user.Password()
	if two {
		a.user, a.password = user.Username(), password
	} else {
		a.token = user.Username()
	}
}

var streamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (a *address) setStream(path string) error {
	a.stream = strings.Trim(path, "/")
	if a.stream == "" {
		a.stream = DefaultStream
	}
	if !streamName.MatchString(a.stream) {
		return &regent.ConfigError{Key: "stream", Value: strconv.Quote(a.stream),
			Rule: "must be 1 to 64 letters, digits, dashes and underscores"}
	}
	return nil
}

func (a *address) setServers(hosts string) error {
	for given := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(given)
		if bare := strings.Trim(given, "[]"); !strings.Contains(given, ":") || net.ParseIP(bare) != nil {
			host, port, err = bare, defaultPort, nil
		}

		n, notANumber := strconv.ParseUint(port, 10, 16)
		if err != nil || notANumber != nil || n == 0 || host == "" {
			return &regent.ConfigError{Key: "host", Value: strconv.Quote(given),
				Rule: "must be host or host:port, the port a number from 1 to 65535"}
		}
		a.servers = append(a.servers, net.JoinHostPort(host, port))
	}
	return nil
}

func (a *address) setKeys(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errUnreadable
	}

	for key, all := range values {
		wrong := func(value, rule string) error { return &regent.ConfigError{Key: key, Value: value, Rule: rule} }
		switch {
		case !slices.Contains(keys, key):
			return wrong("***", "is not known: the keys are "+strings.Join(keys, ", "))
		case len(all) != 1:
			return wrong(strconv.Quote(strings.Join(all, ",")), "must be given once")
		case all[0] == "":
			return wrong(`""`, "must not be empty")
		}
		a.keys[key] = all[0]
	}

	if text := a.keys["replicas"]; text != "" {
		a.replicas, err = strconv.Atoi(text)
		if err != nil || !slices.Contains([]int{1, 3, 5}, a.replicas) {
			return &regent.ConfigError{Key: "replicas", Value: strconv.Quote(text), Rule: "must be 1, 3 or 5"}
		}
	}
	return nil
}

// setTLS turns TLS on if the key tls says so, or any key about TLS is given.
func (a *address) setTLS(cfg *tls.Config) error {
	files := a.keys["ca"] != "" || a.keys["cert"] != "" || a.keys["key"] != "" || a.keys["serverName"] != ""
	on := cfg != nil || files
	if text := a.keys["tls"]; text != "" {
		said, err := strconv.ParseBool(text)
		switch {
		case err != nil:
			return &regent.ConfigError{Key: "tls", Value: strconv.Quote(text), Rule: "must be true or false"}
		case !said && files:
			return &regent.ConfigError{Key: "tls", Value: text, Rule: "must be true with ca, cert, key or serverName"}
		}
		on = said
	}
	if !on {
		return nil
	}

	a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg != nil {
		a.tls = cfg.Clone()
	}
	if name := a.keys["serverName"]; name != "" {
		a.tls.ServerName = name
	}
	return errors.Join(a.loadCA(), a.loadCertificate())
}

func (a *address) loadCA() error {
	path := a.keys["ca"]
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("ca: %w", err)
	}

	a.tls.RootCAs = x509.NewCertPool()
	if !a.tls.RootCAs.AppendCertsFromPEM(text) {
		return &regent.ConfigError{Key: "ca", Value: strconv.Quote(path), Rule: "must be a file of PEM certificates"}
	}
	return nil
}

// loadCertificate checks the client's certificate. It is read again at every handshake, so it can be renewed.
func (a *address) loadCertificate() error {
	cert, key := a.keys["cert"], a.keys["key"]
	if (cert == "") != (key == "") {
		return &regent.ConfigError{Key: "cert, key", Value: strconv.Quote(cert + key),
			Rule: "must be given both or not at all"}
	}
	if cert == "" {
		return nil
	}

	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("cert and key: %w", err)
	}
	a.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(cert, key)
		return &c, err
	}
	return nil
}

var (
	subjectTokens = regexp.MustCompile(`^[^\s.*>]+(\.[^\s.*>]+)*$`)
	oneToken      = regexp.MustCompile(`^[^\s.*>]+$`)
)

func (a *address) validate() error {
	given := func(key string) bool { return a.keys[key] != "" }
	switch {
	case given("domain") && given("apiPrefix"):
		return &regent.ConfigError{Key: "domain, apiPrefix", Value: strconv.Quote(a.keys["domain"]),
			Rule: "must not be given both: a domain stands for the prefix $JS.DOMAIN.API"}
	case given("domain") && !oneToken.MatchString(a.keys["domain"]):
		return &regent.ConfigError{Key: "domain", Value: strconv.Quote(a.keys["domain"]),
			Rule: "must be one token of a subject"}
	case given("creds") && given("nkey"):
		return &regent.ConfigError{Key: "creds, nkey", Value: strconv.Quote(a.keys["creds"]),
			Rule: "must not be given both"}
	case (given("creds") || given("nkey")) && (a.user != "" || a.token != ""):
		return &regent.ConfigError{Key: "creds, nkey", Value: strconv.Quote(a.keys["creds"] + a.keys["nkey"]),
			Rule: "must not be given with a user or a token"}
	}

	for _, key := range []string{"apiPrefix", "inbox"} {
		if given(key) && !subjectTokens.MatchString(a.keys[key]) {
			return &regent.ConfigError{Key: key, Value: strconv.Quote(a.keys[key]),
				Rule: "must be tokens of a subject, without * and >"}
		}
	}
	for _, key := range []string{"creds", "nkey"} {
		if !given(key) {
			continue
		}
		if _, err := os.Stat(a.keys[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// api returns the subject of a request to JetStream.
func (a *address) api(request string) string {
	switch {
	case a.keys["domain"] != "":
		return "$JS." + a.keys["domain"] + ".API." + request
	case a.keys["apiPrefix"] != "":
		return a.keys["apiPrefix"] + "." + request
	}
	return "$JS.API." + request
}

// exposed reports whether a password or a token would cross a network as it is.
func (a *address) exposed() bool {
	return a.tls == nil && a.password+a.token != "" && slices.ContainsFunc(a.servers, func(server string) bool {
		host, _, _ := net.SplitHostPort(server)
		ip := net.ParseIP(host)
		return host != "localhost" && (ip == nil || !ip.IsLoopback())
	})
}

// String returns the address without user, password, token and keys.
func (a *address) String() string {
	text := scheme + strings.Join(a.servers, ",")
	if a.stream != DefaultStream {
		text += "/" + a.stream
	}
	return text
}

// Validate returns what is wrong with an address, without connecting. The text is that of Open.
func Validate(addr string) error {
	_, err := parseAddress(addr, Options{})
	if err == nil {
		return nil
	}
	return fmt.Errorf("store %s: %w", Redact(addr), driver.Refused(err))
}

// Redact returns the parts of an address that cannot be secret.
func Redact(addr string) string {
	rest, ok := strings.CutPrefix(addr, scheme)
	if !ok {
		return scheme + "…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***" + rest[at:]
	}
	shown, _, _ := strings.Cut(rest, "?")
	return scheme + shown
}
