package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/poll"
)

// Duty is a program that runs while the node leads.
type Duty struct {
	Name    string
	Command []string          // the program and its arguments; no shell
	Dir     string            // the node's if empty
	Env     map[string]string // variables that replace those of the node
	Restart string            // when it is run again in the same term: on-failure, always or never
}

// sections are the keys that only a file can hold. Each is a mapping; polls and duties are mappings of names to
// mappings.
var sections = []string{"polls", "duties", healthCheckKey}

// entry is a poll or a duty, as Explain shows it.
type entry struct{ key, value, origin string }

var entryName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// readSection reads polls or duties.
func (c *contents) readSection(key string, n *yaml.Node, at func(int) string) {
	n = target(n)
	switch {
	case null(n):
		return
	case n.Kind != yaml.MappingNode || tagged(n):
		rule := "must be a mapping: a name for each, and its keys below it"
		c.errs = append(c.errs, &Error{at(n.Line), &regent.ConfigError{Key: key, Value: "(set)", Rule: rule}})
		return
	}

	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		where := at(n.Content[i].Line)

		var err error
		switch {
		case seen[name]:
			err = fmt.Errorf("%s.%s is set twice", key, name)
		case key == "polls":
			err = c.readPoll(name, c.renamePollKeys(name, n.Content[i+1], at), where)
		default:
			err = c.readDuty(name, n.Content[i+1], where)
		}

		seen[name] = true
		for _, err := range split(err) {
			c.errs = append(c.errs, &Error{where, err})
		}
	}
}

// split returns the errors that [errors.Join] has joined, or err itself; nothing for nil.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}

	return []error{err}
}

// readPoll adds one entry of polls.
func (c *contents) readPoll(name string, n *yaml.Node, where string) error {
	p, err := poll.FromYAML(name, n)
	if err != nil {
		return err
	}
	if err := p.CheckKind(check.Names()); err != nil {
		return err
	}

	shown := p.Redacted()
	c.polls = append(c.polls, p)
	c.entries = append(c.entries, entry{
		"polls." + name, fmt.Sprintf("%s %s, %s", shown.Kind, shown.Target, when(p)), where,
	})

	return nil
}

// readDuty adds one entry of duties.
func (c *contents) readDuty(name string, n *yaml.Node, where string) error {
	d, err := parseDuty(name, n)
	if err != nil {
		return err
	}

	c.duties = append(c.duties, d)
	c.entries = append(c.entries, entry{"duties." + name, strings.Join(d.Command, " "), where})
	return nil
}

// when returns the schedule of a poll in words.
func when(p poll.Poll) string {
	switch {
	case !p.Enabled:
		return "not enabled"
	case p.Cron != "":
		return strings.TrimSpace("cron " + p.Cron + " " + p.TimeZone)
	}

	return "every " + p.Interval.String()
}

// restarts are the values of duties.NAME.restart.
var restarts = []string{"on-failure", "always", "never"}

// parseDuty returns one entry of duties.
func parseDuty(name string, n *yaml.Node) (Duty, error) {
	r := &dutyReader{duty: Duty{Name: name, Restart: restarts[0]}}
	if name == "cluster-health" || name == "polls" {
		r.refuse("", strconv.Quote(name), "must have another name: every leader has a duty of this one")
	}

	if !entryName.MatchString(name) {
		r.refuse("", fmt.Sprintf("%.100q", name),
			"must have a name of 1 to 100 of A-Z, a-z, 0-9, dot, underscore and hyphen")
	}

	if n = target(n); n.Kind != yaml.MappingNode || tagged(n) {
		r.refuse("", "(set)", "must be a mapping of keys such as command and restart")
		return r.duty, errors.Join(r.errs...)
	}

	for i := 0; i+1 < len(n.Content); i += 2 {
		r.read(n.Content[i].Value, target(n.Content[i+1]))
	}

	if len(r.errs) == 0 && (len(r.duty.Command) == 0 || r.duty.Command[0] == "") {
		r.refuse("command", "(none)", "must name a program")
	}

	r.duty.refuseNUL(r.refuse)
	if !slices.Contains(restarts, r.duty.Restart) {
		r.refuse("restart", fmt.Sprintf("%.100q", r.duty.Restart), "must be "+oneOf(restarts))
	}

	return r.duty, errors.Join(r.errs...)
}

// dutyReader reads the keys of a duty.
type dutyReader struct {
	duty Duty
	errs []error
}

// refuse adds an error about a key of the duty, or about the duty itself if key is empty.
func (r *dutyReader) refuse(key, value, rule string) {
	key = strings.TrimSuffix("duties."+r.duty.Name+"."+key, ".")
	r.errs = append(r.errs, &regent.ConfigError{Key: key, Value: value, Rule: rule})
}

// read reads one key.
func (r *dutyReader) read(key string, value *yaml.Node) {
	scalar := value.Kind == yaml.ScalarNode && !null(value) && !tagged(value)
	switch key {
	case "command":
		r.readCommand(value, scalar)
	case "dir":
		if r.duty.Dir = value.Value; !scalar {
			r.refuse(key, "(set)", "must be a path")
		}
	case "restart":
		if r.duty.Restart = value.Value; !scalar {
			r.duty.Restart = restarts[0]
			r.refuse(key, "(set)", "must be a word")
		}
	case "env":
		r.readEnv(value)
	default:
		hint := suggest(key, "", []string{"command", "dir", "env", "restart"})
		r.errs = append(r.errs, fmt.Errorf("unknown key duties.%s.%.80s%s", r.duty.Name, key, hint))
	}
}

func (r *dutyReader) readCommand(value *yaml.Node, scalar bool) {
	switch {
	case value.Kind == yaml.SequenceNode:
		for _, word := range value.Content {
			if word = target(word); word.Kind != yaml.ScalarNode {
				r.refuse("command", "[…]", "must be a list of words")
				return
			}
			r.duty.Command = append(r.duty.Command, word.Value)
		}
	case scalar && !strings.ContainsAny(value.Value, " \t"):
		r.duty.Command = []string{value.Value}
	default:
		r.refuse("command", fmt.Sprintf("%.100q", value.Value),
			"must be a list of words, as in [sync, --all]: there is no shell that would split it")
	}
}

func (r *dutyReader) readEnv(value *yaml.Node) {
	if value.Kind != yaml.MappingNode {
		r.refuse("env", "(set)", "must be a mapping of names to values")
		return
	}

	r.duty.Env = map[string]string{}
	for i := 0; i+1 < len(value.Content); i += 2 {
		r.duty.Env[value.Content[i].Value] = target(value.Content[i+1]).Value
	}
}

// refuseNUL refuses what the system cannot pass to a program: a NUL byte, or a variable without a name.
func (d *Duty) refuseNUL(refuse func(key, value, rule string)) {
	const rule = "must not hold a NUL byte"
	for _, word := range d.Command {
		if strings.ContainsRune(word, 0) {
			refuse("command", fmt.Sprintf("%.100q", word), rule)
		}
	}

	if strings.ContainsRune(d.Dir, 0) {
		refuse("dir", fmt.Sprintf("%.100q", d.Dir), rule)
	}
	for name, value := range d.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			refuse("env", fmt.Sprintf("%.100q", name), "must have names without = and NUL bytes")
		case strings.ContainsRune(value, 0):
			refuse("env."+name, "(set)", rule)
		}
	}
}
