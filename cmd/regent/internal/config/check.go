package config

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Schemes returns how a store's address can begin: what this binary has a driver for.
func Schemes() []string { return []string{"sqlite:", "memory:", "redis://", "rediss://", "s3://"} }

// check returns every rule that is broken: the node's, and the library's.
func (s *Settings) check() []finding {
	var found []finding
	check := func(ok bool, key, value, rule string, involves ...string) {
		if !ok {
			found = append(found, finding{key, quote(key, value), rule, involves})
		}
	}
	scheme := func(begin string) bool { return strings.HasPrefix(s.Store, begin) }
	check(slices.ContainsFunc(Schemes(), scheme), "store", s.Store, "must begin with "+oneOf(Schemes())+", the stores that this binary has")
	check(strings.TrimSpace(s.Store) != "sqlite:", "store", s.Store, "must name a file, as in sqlite:regent.db")
	check(driver.ValidName(s.Election) && !strings.HasPrefix(s.Election, "regent/"), "election", s.Election,
		`must be 1 to 250 bytes of UTF-8 without control characters, and not begin with "regent/"`)
	check(s.Node == "" || s.Node != "*" && driver.ValidName(driver.MemberRegister(s.Node)), "node", s.Node,
		`must be 1 to `+strconv.Itoa(250-len(driver.MemberRegister("")))+` bytes of UTF-8 without control characters, and not "*"`)
	check(s.Node != "." && s.Node != ".." && !strings.ContainsAny(s.Node, `/\`), "node", s.Node,
		`must not hold / or \, and be neither . nor ..: it names a directory below dataDir`)
	check(slices.Contains([]string{"text", "json"}, s.LogFormat), "logFormat", s.LogFormat, "must be text or json")
	check(s.Token == "" || !s.Given("token") || s.TokenFile == "", "tokenFile", s.TokenFile, "cannot be combined with token", "token")
	check(!strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }), "token", s.Token,
		"must be ASCII without spaces, since it travels in a header")
	check(s.TLSCert == "" || s.TLSKey != "", "tlsCert", s.TLSCert, "needs tlsKey", "tlsKey")
	check(s.TLSCA == "" || s.TLSCert != "", "tlsCA", s.TLSCA, "needs tlsCert and tlsKey, which this node proves itself by", "tlsCert")
	check(s.Tasks >= 1 && s.Tasks <= 10_000, "workerTasks", strconv.Itoa(s.Tasks), "must be 1 to 10000")
	check(s.TaskBytes >= 1<<20 && s.TaskBytes <= 1<<32, "workerBytes", strconv.Itoa(s.TaskBytes), "must be 1048576 (1 MiB) to 4294967296 (4 GiB)")
	check(s.DataDir != "" || !s.Worker, "dataDir", s.DataDir, "must name a directory, unless worker is false", "worker")
	check(len(s.Polls) == 0 || !s.Regent.OwnLease || s.Regent.Register, "register", strconv.FormatBool(s.Regent.Register),
		"must be true where there are polls, so that workers are known, unless the member's heartbeat keeps the seats", "ownLease")
	check(s.TLSKey == "" || s.TLSCert != "", "tlsKey", s.TLSKey, "needs tlsCert", "tlsCert")
	host, _, err := splitAddress(s.Listen)
	check(err == nil, "listen", s.Listen, "must be host:port, the port a number up to 65535")
	check(err != nil || loopback(host) || s.Token != "" || s.TLSCert != "" || s.Insecure, "listen", s.Listen,
		"is beyond loopback, which needs token, tokenFile, or tlsCert and tlsKey; insecure goes without", "token", "tokenFile", "tlsCert", "tlsKey", "insecure")
	check(!s.ExecPolls || s.Token != "" || s.TokenFile != "" || s.TLSCA != "", "execPolls", "true",
		"needs token, tokenFile or tlsCA: else every user of this machine could run programs with the rights of the node",
		"token", "tokenFile", "tlsCA")
	host, port, err := splitAddress(s.Advertise)
	check(err == nil && !everywhere(host) && port != 0 || !s.Given("advertise"), "advertise", s.Advertise,
		"must be the host:port at which others reach this node")
	return append(found, s.checkMember()...)
}

// Exposed reports whether others than this machine can reach the node, and it was not said that anybody may write.
func (s *Settings) Exposed() bool {
	host, _, err := splitAddress(s.Listen)
	return (err != nil || !loopback(host)) && !s.Insecure
}

// comparedTo finds the keys that the library's rules compare a value to: "must be >= startupJitterMin (5s)".
var comparedTo = regexp.MustCompile(`(\w+) \(`)

// checkMember returns what the library refuses.
func (s *Settings) checkMember() []finding {
	err := s.Regent.Validate()
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	var found []finding
	for _, err := range errs {
		var c *regent.ConfigError
		if !errors.As(err, &c) {
			continue
		}
		f := finding{key: c.Key, value: c.Value, rule: c.Rule}
		for _, match := range comparedTo.FindAllStringSubmatch(c.Rule, -1) {
			if _, ok := s.origins[match[1]]; ok {
				f.involves = append(f.involves, match[1])
			}
		}
		found = append(found, f)
	}
	return found
}

func splitAddress(s string) (host string, port uint64, err error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.ParseUint(p, 10, 16)
	return host, port, err
}

// loopback reports whether only this machine can reach the host. A name other than localhost may mean anything.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// everywhere reports whether the host stands for all addresses of the machine.
func everywhere(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.Unmap().IsUnspecified()
}
