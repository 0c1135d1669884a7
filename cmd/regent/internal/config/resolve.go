package config

import (
	"errors"
	"maps"

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
	if g, ok := r.given["profile"]; ok && g.rule == "" {
		profile = g.text
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
