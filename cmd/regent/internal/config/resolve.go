package config

import (
	"errors"
	"maps"
	"strings"

	"github.com/regentd/regent"
)

// given is a value as it was given, before it is checked.
type given struct {
	text   string
	origin string
	rule   string // that its form in the file breaks
}

// Load returns the settings that the flags, the variables in environ and the file that they name give. It refuses a
// mistyped variable.
func (s *Source) Load(environ []string, readFile func(name string) ([]byte, error)) (*Settings, error) {
	mistyped, warnings := unknown(environ)
	settings, err := s.load(environ, readFile, (*Settings).check)
	if err := errors.Join(append(mistyped, err)...); err != nil {
		return nil, err
	}

	settings.Warnings = append(warnings, settings.Warnings...)
	return settings, nil
}

// LoadClient is Load for a command that asks a node or a store. It refuses only what such a command would use: a file
// may hold any key of a node. It warns of a mistyped variable.
func (s *Source) LoadClient(environ []string, readFile func(name string) ([]byte, error)) (*Settings, error) {
	settings, err := s.load(environ, readFile, (*Settings).checkClient)
	if err != nil {
		return nil, err
	}

	mistyped, _ := unknown(environ) // others are the node's business
	for _, m := range mistyped {
		settings.Mistyped = append(settings.Mistyped, m.Error())
	}
	return settings, nil
}

func (s *Source) load(
	environ []string, readFile func(name string) ([]byte, error), check func(*Settings) []finding,
) (*Settings, error) {
	all, warnings := variables(environ)
	maps.Copy(all, s.given())
	var errs []error
	var file contents

	if g := all["config"]; g.text != "" {
		data, err := readFile(g.text)
		if err != nil {
			rule := "cannot be read: " + err.Error()
			return nil, &Error{g.origin, &regent.ConfigError{Key: "config", Value: quote("config", g.text), Rule: rule}}
		}

		if file, err = readYAML(g.text, data); err != nil {
			return nil, err
		}
		maps.Copy(file.values, all)
		all = file.values
		errs = file.errs
		warnings = append(file.warnings, warnings...)
	}

	r := &resolver{given: all, readFile: readFile, bad: map[string]bool{}, errs: errs, file: file, check: check}
	r.resolve()

	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}

	r.Args = s.set.Args()
	r.Warnings = append(warnings, r.Warnings...)
	return r.Settings, nil
}

// resolver turns given values into settings.
type resolver struct {
	*Settings
	given    map[string]given
	readFile func(string) ([]byte, error)
	file     contents
	bad      map[string]bool // keys whose values are refused, so that no rule compares others to them
	errs     []error
	check    func(*Settings) []finding
}

// resolve sets every key, and collects errors and warnings.
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
		bad := finding{key: "profile", value: quote("profile", profile), rule: "must be " + oneOf(Profiles())}
		r.refuse(bad, r.given["profile"].origin)
	}

	copied := *base
	r.Settings = &copied
	r.origins = map[string]origin{}
	r.Polls = r.file.polls
	r.Duties = r.file.duties
	r.HealthCheck = r.file.healthCheck
	r.entries = r.file.entries

	for _, k := range Keys() {
		r.take(k)
	}
	if byStore {
		r.derive("profile", "store")
	}

	if r.bad["profile"] {
		return // no default is known
	}

	r.follow(base)
	r.readToken()
	r.warnOfSecrets()
	r.refuseAll(r.check(r.Settings))
}

// take sets a key to the given value.
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

// follow derives keys that were not given from keys that were, where the default of the profile would contradict them.
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

	switch { // without ownLease the heartbeat renews the elections
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

// derive records that a key has the value of another one.
func (r *resolver) derive(key, from string) {
	r.origins[key] = origin{text: "follows " + from, follows: from}
}
