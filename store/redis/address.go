package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// address is a parsed address, combined with the options.
type address struct {
	hosts                          []string
	user, password                 string
	db                             int
	tls                            *tls.Config // nil without TLS
	prefix                         string
	cluster                        bool
	sentinel                       string // the name of the primary that the sentinels monitor
	sentinelUser, sentinelPassword string
	replicas                       int
	replicaTimeout                 time.Duration
}

// errEncode shows nothing of the address, because any part of it may be secret.
var errEncode = errors.New("in user, password and values these characters must be percent-encoded: / is %2F, ? is " +
	"%3F, # is %23, @ is %40, % is %25")

// parseAddress splits the address by hand, because net/url refuses several hosts and shows the password in its errors.
func parseAddress(s string, opts Options) (*address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "redis" && scheme != "rediss" {
		return nil, errors.New("the address must begin with redis:// or, for TLS, rediss://")
	}

	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}

	authority, rest := rest[:end], rest[end:]
	if strings.ContainsAny(rest, "@#") {
		return nil, errEncode
	}

	a := &address{user: opts.Username, password: opts.Password, prefix: opts.Prefix, replicas: opts.Replicas,
		replicaTimeout: opts.ReplicaTimeout}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		a.user, err1 = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil || strings.Contains(authority[:at], "@") {
			return nil, errEncode
		}
		authority = authority[at+1:]
	}

	path, query, _ := strings.Cut(rest, "?")
	path = strings.Trim(path, "/")
	if path != "" {
		db, err := strconv.ParseUint(path, 10, 15)
		if err != nil {
			return nil, &regent.ConfigError{Key: "database", Value: path, Rule: "must be a number"}
		}
		a.db = int(db)
	}

	secure := &tlsFiles{}
	if err := a.parseQuery(query, secure); err != nil {
		return nil, err
	}

	if err := a.parseHosts(authority); err != nil {
		return nil, err
	}

	if err := a.parseTLS(scheme == "rediss", secure, opts.TLS); err != nil {
		return nil, err
	}
	return a, a.validate()
}

// tlsFiles are the TLS parameters of an address.
type tlsFiles struct{ ca, cert, key, serverName string }

func (a *address) parseQuery(query string, secure *tlsFiles) error {
	texts := map[string]*string{
		"prefix": &a.prefix, "sentinel": &a.sentinel, "sentinelUser": &a.sentinelUser,
		"sentinelPassword": &a.sentinelPassword,
		"ca":               &secure.ca, "cert": &secure.cert, "key": &secure.key, "serverName": &secure.serverName,
	}

	values, err := url.ParseQuery(query)
	if err != nil {
		return errEncode
	}

	for key, all := range values {
		value := all[0]
		refuse := func(rule string) error {
			if strings.Contains(strings.ToLower(key), "pass") {
				value = "***"
			}
			return &regent.ConfigError{Key: key, Value: strconv.Quote(value), Rule: rule}
		}

		if len(all) > 1 {
			return refuse("must be given once")
		}

		var err error
		switch text := texts[key]; {
		case text != nil:
			*text = value
		case key == "cluster":
			if a.cluster, err = strconv.ParseBool(value); err != nil {
				return refuse("must be true or false")
			}
		case key == "replicas":
			if a.replicas, err = strconv.Atoi(value); err != nil {
				return refuse("must be a number")
			}
		case key == "replicaTimeout":
			if a.replicaTimeout, err = time.ParseDuration(value); err != nil {
				return refuse("must be a duration, such as 1s")
			}
		default:
			return refuse("is not known: the keys are prefix, cluster, sentinel, sentinelUser, sentinelPassword, " +
				"replicas, replicaTimeout, ca, cert, key, serverName")
		}
	}

	return nil
}

func (a *address) parseHosts(authority string) error {
	port := "6379"
	if a.sentinel != "" {
		port = "26379"
	}

	for _, hostport := range strings.Split(authority, ",") {
		host, p, err := net.SplitHostPort(hostport)
		if err != nil { // no port
			host, p = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]"), port
		}

		if host == "" {
			host = "localhost"
		}

		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || strings.Contains(host, ":") &&
			net.ParseIP(host) == nil {
			return &regent.ConfigError{Key: "host", Value: strconv.Quote(hostport),
				Rule: "must be host or host:port, the port a number from 1 to 65535"}
		}

		a.hosts = append(a.hosts, net.JoinHostPort(host, p))
	}

	return nil
}

func (a *address) parseTLS(on bool, files *tlsFiles, cfg *tls.Config) error {
	if !on {
		if *files != (tlsFiles{}) {
			return &regent.ConfigError{Key: "ca, cert, key, serverName", Value: "",
				Rule: "need an address that begins with rediss://"}
		}
		return nil
	}

	a.tls = cfg.Clone()
	if a.tls == nil {
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	if files.serverName != "" {
		a.tls.ServerName = files.serverName
	}

	if files.ca != "" {
		pem, err := os.ReadFile(files.ca)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		a.tls.RootCAs = x509.NewCertPool()
		if !a.tls.RootCAs.AppendCertsFromPEM(pem) {
			return &regent.ConfigError{Key: "ca", Value: files.ca, Rule: "must be a file of PEM certificates"}
		}
	}

	if files.cert != "" || files.key != "" {
		pair, err := tls.LoadX509KeyPair(files.cert, files.key)
		if err != nil {
			return fmt.Errorf("cert and key: %w", err)
		}
		a.tls.Certificates = []tls.Certificate{pair}
	}

	return nil
}

func (a *address) validate() error {
	check := func(ok bool, key string, value any, rule string) error {
		if ok {
			return nil
		}
		return &regent.ConfigError{Key: key, Value: fmt.Sprint(value), Rule: rule}
	}

	if a.replicaTimeout == 0 {
		a.replicaTimeout = time.Second
	}
	return errors.Join(
		check(!a.cluster || a.sentinel == "", "cluster", a.cluster, "cannot be combined with sentinel"),
		check(a.cluster || a.sentinel != "" || len(a.hosts) == 1, "host", strings.Join(a.hosts, ","),
			"must be one, unless cluster=true or sentinel=NAME is given"),
		check(!a.cluster || a.db == 0, "database", a.db, "must be 0 in a cluster"),
		check(!strings.ContainsAny(a.prefix, "{}%"), "prefix", a.prefix, "must not contain { } or %"),
		check(a.sentinel != "" || a.sentinelUser == "" && a.sentinelPassword == "", "sentinelUser, sentinelPassword",
			"", "need sentinel=NAME"),
		check(a.replicas >= 0, "replicas", a.replicas, "cannot be negative"),
		check(a.replicaTimeout >= time.Millisecond, "replicaTimeout", a.replicaTimeout,
			"must be at least 1ms: WAIT with 0 would block for ever"),
	)
}

// String returns the address without its secrets.
func (a *address) String() string {
	var b strings.Builder
	b.WriteString("redis")
	if a.tls != nil {
		b.WriteByte('s')
	}

	b.WriteString("://")
	if a.user != "" || a.password != "" {
		b.WriteString(url.PathEscape(a.user))
		if a.password != "" {
			b.WriteString(":***")
		}
		b.WriteByte('@')
	}

	b.WriteString(strings.Join(a.hosts, ",") + "/" + strconv.Itoa(a.db))
	q := url.Values{}
	for key, value := range map[string]string{"prefix": a.prefix, "sentinel": a.sentinel} {
		if value != "" {
			q.Set(key, value)
		}
	}

	if a.cluster {
		q.Set("cluster", "true")
	}

	if a.replicas > 0 {
		q.Set("replicas", strconv.Itoa(a.replicas))
	}

	if len(q) > 0 {
		b.WriteString("?" + q.Encode())
	}
	return b.String()
}

// redact returns the parts of an unparsable address that cannot be secret.
func redact(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !slices.Contains([]string{"redis", "rediss"}, scheme) {
		return "…"
	}

	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}

	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}

// Validate returns what is wrong with an address, without connecting. The text is that of Open.
func Validate(addr string) error {
	if _, err := parseAddress(addr, Options{}); err != nil {
		return fmt.Errorf("store %s: %w", redact(addr), driver.Refused(err))
	}
	return nil
}
