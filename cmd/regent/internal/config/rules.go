package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// finding is a rule that a value breaks, and the other keys that the rule depends on.
type finding struct {
	key, value, rule string
	involves         []string
}

// oneOf joins words with commas and "or".
func oneOf(words []string) string {
	last := len(words) - 1
	return fmt.Sprintf("%s or %s", strings.Join(words[:last], ", "), words[last])
}

// refuseAll refuses the findings that the user can act on. It leaves out a value that was compared to one that could
// not be read, and a value that only follows another one that is refused.
func (r *resolver) refuseAll(found []finding) {
	unread := maps.Clone(r.bad)
	refused := map[string]bool{}
	for _, f := range found {
		refused[f.key] = true
	}

	for _, f := range found {
		keys := append([]string{f.key}, f.involves...)
		unknown := slices.ContainsFunc(keys, func(key string) bool {
			return unread[key] || unread[r.origins[key].follows]
		})
		if unknown || refused[r.origins[f.key].follows] {
			continue
		}

		r.refuse(f, r.where(keys))
	}
}

// where returns the places in which any of the keys, or the keys that they follow, was given. If none was, it returns
// that of the default of the first key.
func (r *resolver) where(keys []string) string {
	var places []string
	for _, key := range keys {
		if followed := r.origins[key].follows; followed != "" {
			key = followed
		}
		if o := r.origins[key]; o.given && !slices.Contains(places, o.text) {
			places = append(places, o.text)
		}
	}

	if len(places) == 0 {
		return r.Origin(keys[0])
	}
	return strings.Join(places, " and ")
}

// refuse adds an error, once.
func (r *resolver) refuse(f finding, from string) {
	r.bad[f.key] = true
	err := &Error{from, &regent.ConfigError{Key: f.key, Value: f.value, Rule: f.rule}}
	if !slices.ContainsFunc(r.errs, func(e error) bool { return e.Error() == err.Error() }) {
		r.errs = append(r.errs, err)
	}
}

// check returns every rule that is broken: of the node, and of the library.
func (s *Settings) check() []finding {
	var found []finding
	check := func(ok bool, key, value, rule string, involves ...string) {
		if !ok {
			found = append(found, finding{key, quote(key, value), rule, involves})
		}
	}
	s.checkNames(check)
	s.checkSecurity(check)
	s.checkWorker(check)
	s.checkRetirement(check)

	return append(found, s.checkMember()...)
}

// checkClient returns every rule that is broken of those that matter to a command which asks a node or a store.
func (s *Settings) checkClient() []finding {
	var found []finding
	check := func(ok bool, key, value, rule string, involves ...string) {
		if !ok {
			found = append(found, finding{key, quote(key, value), rule, involves})
		}
	}
	s.checkNames(check)
	s.checkToken(check)
	s.checkCertificate(check)

	return found
}

// checkMember returns the rules of the library that are broken.
func (s *Settings) checkMember() []finding {
	err := s.Regent.Validate()
	var found []finding
	for _, err := range split(err) {
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

// comparedTo finds the keys that the library's rules compare a value to: "must be >= startupJitterMin (5s)".
var comparedTo = regexp.MustCompile(`(\w+) \(`)

// checkFunc adds a finding unless ok. The rule depends on the keys that involves names, besides its own.
type checkFunc func(ok bool, key, value, rule string, involves ...string)

// checkNames checks the store, the names, and formats.
func (s *Settings) checkNames(check checkFunc) {
	scheme := func(begin string) bool { return strings.HasPrefix(s.Store, begin) }
	check(slices.ContainsFunc(Schemes(), scheme), "store", s.Store,
		"must begin with "+oneOf(Schemes())+", the stores that this binary has"+otherBuild(s.Store))
	check(strings.TrimSpace(s.Store) != "sqlite:", "store", s.Store, "must name a file, as in sqlite:regent.db")

	check(driver.ValidName(s.Election) && !strings.HasPrefix(s.Election, driver.Reserved), "election", s.Election,
		`must be 1 to 250 bytes of UTF-8 without control characters, and not begin with "regent/"`)
	check(s.Node == "" || s.Node != "*" && driver.ValidName(driver.MemberRegister(s.Node)), "node", s.Node,
		`must be 1 to `+strconv.Itoa(driver.MaxName-len(driver.MemberRegister("")))+
			` bytes of UTF-8 without control characters, and not "*"`)
	check(s.Node != "." && s.Node != ".." && !strings.ContainsAny(s.Node, `/\`), "node", s.Node,
		`must not hold / or \, and be neither . nor ..: it names a directory below dataDir`)

	check(slices.Contains([]string{"text", "json"}, s.LogFormat), "logFormat", s.LogFormat, "must be text or json")
	check(s.EventPrefix == "" || entryName.MatchString(s.EventPrefix), "eventPrefix", s.EventPrefix,
		"must be 1 to 100 of A-Z, a-z, 0-9, dot, underscore and hyphen")
}

// checkSecurity checks addresses, the token, and certificates.
func (s *Settings) checkSecurity(check checkFunc) {
	s.checkToken(check)
	s.checkCertificate(check)
	check(s.TLSCA == "" || s.TLSCert != "", "tlsCA", s.TLSCA,
		"needs tlsCert and tlsKey, by which this node proves itself", "tlsCert")
	s.checkAddresses(check)

	check(!s.ExecPolls || s.Token != "" || s.TokenFile != "" || s.TLSCA != "", "execPolls", "true",
		"needs token, tokenFile or tlsCA: else every user of this machine could run programs with the rights of "+
			"the node",
		"token", "tokenFile", "tlsCA")
}

// checkToken checks the token.
func (s *Settings) checkToken(check checkFunc) {
	check(s.Token == "" || !s.Given("token") || s.TokenFile == "", "tokenFile", s.TokenFile,
		"cannot be combined with token", "token")
	check(!strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }), "token", s.Token,
		"must be ASCII without spaces, because it is sent in a header")
}

// checkCertificate checks that a certificate has its key.
func (s *Settings) checkCertificate(check checkFunc) {
	check(s.TLSCert == "" || s.TLSKey != "", "tlsCert", s.TLSCert, "needs tlsKey", "tlsKey")
	check(s.TLSKey == "" || s.TLSCert != "", "tlsKey", s.TLSKey, "needs tlsCert", "tlsCert")
}

// checkAddresses checks where the node listens, and what other nodes get.
func (s *Settings) checkAddresses(check checkFunc) {
	host, _, err := splitAddress(s.Listen)
	check(err == nil, "listen", s.Listen, "must be host:port, the port a number up to 65535")
	check(err != nil || loopback(host) || s.Token != "" || s.TLSCert != "" || s.Insecure, "listen", s.Listen,
		"is beyond loopback, which needs token, tokenFile, or tlsCert and tlsKey; insecure allows it without",
		"token", "tokenFile", "tlsCert", "tlsKey", "insecure")

	host, port, err := splitAddress(s.Advertise)
	check(err == nil && !everywhere(host) && port != 0 || !s.Given("advertise"), "advertise", s.Advertise,
		"must be the host:port at which others reach this node")
}

// checkRetirement checks the keys of the removal of registers.
func (s *Settings) checkRetirement(check checkFunc) {
	check(s.RetireAfter == 0 || s.RetireAfter >= regent.MinRetireAfter, "retireAfter", s.RetireAfter.String(),
		fmt.Sprintf("must be at least %v, or 0s for never", regent.MinRetireAfter))
}

// checkWorker checks the keys of a worker and of polls.
func (s *Settings) checkWorker(check checkFunc) {
	check(s.Tasks >= 1 && s.Tasks <= 10_000, "workerTasks", strconv.Itoa(s.Tasks), "must be 1 to 10000")
	check(s.TaskBytes >= 1<<20 && s.TaskBytes <= 1<<32, "workerBytes", strconv.Itoa(s.TaskBytes),
		"must be 1048576 (1 MiB) to 4294967296 (4 GiB)")
	check(s.DataDir != "" || !s.Worker, "dataDir", s.DataDir, "must name a directory, unless worker is false", "worker")

	check(len(s.Polls) == 0 || !s.Regent.OwnLease || s.Regent.Register, "register",
		strconv.FormatBool(s.Regent.Register),
		"must be true where there are polls, so that workers are known, unless ownLease is false", "ownLease")
}
