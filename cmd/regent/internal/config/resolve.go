package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regentd/regent"
)

// given is a value as it was given, before it is known whether it makes sense.
type given struct {
	text   string
	origin string
	rule   string // that its form breaks already
}

// Load reads the variables in environ and the file that flag or variable names, and returns what all of them amount to.
func (s *Source) Load(environ []string, readFile func(name string) ([]byte, error)) (*Settings, error) {
	all, warnings := variables(environ)
	maps.Copy(all, s.given())
	var errs []error
	var file contents
	if g := all["config"]; g.text != "" {
		data, err := readFile(g.text)
		if err != nil {
			return nil, &Error{g.origin, &regent.ConfigError{Key: "config", Value: quote("config", g.text), Rule: "cannot be read: " + err.Error()}}
		}
		if file, err = readYAML(g.text, data); err != nil {
			return nil, err
		}
		maps.Copy(file.values, all)
		all, errs, warnings = file.values, file.errs, append(file.warnings, warnings...)
	}
	r := &resolver{given: all, readFile: readFile, bad: map[string]bool{}, errs: errs, file: file}
	r.resolve()
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	r.Args = s.set.Args()
	r.Warnings = append(warnings, r.Warnings...)
	return r.Settings, nil
}

// resolver turns what was given into settings.
type resolver struct {
	*Settings
	given    map[string]given
	readFile func(string) ([]byte, error)
	file     contents
	bad      map[string]bool // keys whose values are refused, so that others cannot be judged by them
	errs     []error
}

func (r *resolver) resolve() {
	profile := Profiles()[0]
	g, named := r.given["profile"]
	byStore := !named && strings.HasPrefix(r.given["store"].text, "s3://") // where each request costs money
	switch {
	case named && g.rule == "":
		profile = g.text
	case byStore:
		profile = "fleet"
	}
	base, ok := defaults(profile)
	if !ok {
		r.refuse(finding{key: "profile", value: quote("profile", profile), rule: "must be " + oneOf(Profiles())}, r.given["profile"].origin)
	}
	copied := *base
	r.Settings = &copied
	r.origins = map[string]origin{}
	r.Polls, r.Duties, r.parts = r.file.polls, r.file.duties, r.file.parts
	for _, k := range Keys() {
		r.take(k)
	}
	if byStore {
		r.derive("profile", "store")
	}
	if r.bad["profile"] {
		return // every default is in doubt
	}
	r.follow(base)
	r.readToken()
	r.warnOfSecrets()
	r.judge(r.check())
}

// take sets a key to what was given.
func (r *resolver) take(k Key) {
	g, ok := r.given[k.Name]
	if !ok {
		text := "default"
		if k.byProfile {
			text = "profile " + r.Profile
		}
		r.origins[k.Name] = origin{text: text}
		return
	}
	r.origins[k.Name] = origin{text: g.origin, given: true}
	value := g.text
	if g.rule == "" {
		value = quote(k.Name, g.text)
		g.rule = parse(k.field(r.Settings), g.text)
	}
	if g.rule != "" {
		r.refuse(finding{key: k.Name, value: value, rule: g.rule}, g.origin)
	}
}

// follow derives what was not given from what was, where a profile's default would contradict it.
func (r *resolver) follow(base *Settings) {
	c, b := &r.Regent, base.Regent
	if r.Given("electionInterval") && !r.Given("electionIntervalMax") &&
		(b.ElectionIntervalMax == b.ElectionInterval || c.ElectionIntervalMax < c.ElectionInterval) {
		c.ElectionIntervalMax = c.ElectionInterval
		r.derive("electionIntervalMax", "electionInterval")
	}
	if r.Given("leaseDuration") && !r.Given("workerTimeout") && b.WorkerTimeout == b.LeaseDuration {
		c.WorkerTimeout = c.LeaseDuration
		r.derive("workerTimeout", "leaseDuration")
	}
	switch { // the heartbeat renews the seats, unless they have leases of their own
	case c.OwnLease:
	case !r.Given("renewInterval"):
		if r.Given("heartbeatInterval") || c.RenewInterval != c.HeartbeatInterval {
			c.RenewInterval = c.HeartbeatInterval
			r.derive("renewInterval", "heartbeatInterval")
		}
	case !r.Given("heartbeatInterval"):
		c.HeartbeatInterval = c.RenewInterval
		r.derive("heartbeatInterval", "renewInterval")
	}
	if r.Advertise == "" {
		r.Advertise = r.Listen
		r.derive("advertise", "listen")
	}
}

func (r *resolver) derive(key, from string) {
	r.origins[key] = origin{text: "follows " + from, follows: from}
}

// readToken takes the token from its file.
func (r *resolver) readToken() {
	if r.TokenFile == "" || r.Token != "" {
		return
	}
	data, err := r.readFile(r.TokenFile)
	r.Token = strings.TrimSpace(string(data))
	rule := ""
	switch {
	case err != nil:
		rule = "cannot be read: " + err.Error()
	case len(data) > maxToken:
		rule = fmt.Sprintf("must have at most %d bytes", maxToken)
	case r.Token == "":
		rule = "must not be empty"
	}
	if rule != "" {
		r.Token = ""
		r.refuse(finding{key: "tokenFile", value: quote("tokenFile", r.TokenFile), rule: rule}, r.Origin("tokenFile"))
	}
	r.derive("token", "tokenFile")
}

// shortToken is the length below which a token is warned about: whoever records a signed request can try that many.
const shortToken = 16

// warnOfSecrets warns of secrets that others can see, or guess.
func (r *resolver) warnOfSecrets() {
	warn := func(text string) {
		if text != "" {
			r.Warnings = append(r.Warnings, text)
		}
	}
	if r.TokenFile != "" {
		warn(Exposed("tokenFile", r.TokenFile))
	}
	if r.TLSKey != "" {
		warn(Exposed("tlsKey", r.TLSKey))
	}
	if strings.HasPrefix(r.Origin("store"), "flag") && Redact(r.Store) != r.Store {
		warn("store is given by a flag with a secret in it, so that other users see it in the list of processes: use a variable or the file")
	}
	switch from := r.Origin("token"); {
	case r.Token == "":
		return
	case strings.HasPrefix(from, "flag"):
		warn("token is given by a flag, so that other users see it in the list of processes: use tokenFile")
	case strings.HasPrefix(from, "file"):
		warn(Exposed("config, which holds the token,", r.File))
	}
	if len(r.Token) < shortToken {
		warn(fmt.Sprintf("token has %d characters: whoever records a request between nodes can guess it; take at least %d, "+
			"at random", len(r.Token), shortToken))
	}
}

// finding is a rule that a value breaks, and the other keys that play a part in it.
type finding struct {
	key, value, rule string
	involves         []string
}

func (r *resolver) refuse(f finding, from string) {
	r.bad[f.key] = true
	err := &Error{from, &regent.ConfigError{Key: f.key, Value: f.value, Rule: f.rule}}
	if !slices.ContainsFunc(r.errs, func(e error) bool { return e.Error() == err.Error() }) {
		r.errs = append(r.errs, err)
	}
}

// judge refuses what was found, but says each thing once: a value that could not be read was not compared to others, and one that only
// follows another is not to blame.
func (r *resolver) judge(found []finding) {
	unread := maps.Clone(r.bad)
	blamed := map[string]bool{}
	for _, f := range found {
		blamed[f.key] = true
	}
	for _, f := range found {
		keys := append([]string{f.key}, f.involves...)
		leader := r.origins[f.key].follows
		if blamed[leader] || slices.ContainsFunc(keys, func(key string) bool { return unread[key] || unread[r.origins[key].follows] }) {
			continue
		}
		r.refuse(f, r.where(keys))
	}
}

// where names the places in which any of the keys, or what they follow, was given. If none was, the first key's default is at fault.
func (r *resolver) where(keys []string) string {
	var places []string
	for _, key := range keys {
		if leader := r.origins[key].follows; leader != "" {
			key = leader
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

// oneOf writes a list as a sentence does.
func oneOf(words []string) string {
	last := len(words) - 1
	return fmt.Sprintf("%s or %s", strings.Join(words[:last], ", "), words[last])
}
