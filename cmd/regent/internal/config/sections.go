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
	Env     map[string]string // over the node's
	Restart string            // when it is run again in the same term: on-failure, always or never
}

// parts are the keys that only a file can hold, each a mapping of names to mappings.
var parts = []string{"polls", "duties"}

// part is an entry of one of them, as it is shown.
type part struct{ key, value, origin string }

var partName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// readPart reads polls or duties.
func (c *contents) readPart(key string, n *yaml.Node, at func(int) string) {
	n = target(n)
	switch {
	case null(n):
		return
	case n.Kind != yaml.MappingNode || tagged(n):
		c.errs = append(c.errs, &Error{at(n.Line), &regent.ConfigError{Key: key, Value: "(set)", Rule: "must be a mapping: a name for each, and its keys below it"}})
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		where := at(n.Content[i].Line)
		var err error
		switch {
		case seen[name]:
			err = fmt.Errorf("%s.%s is set twice", key, name)
		case key == "polls":
			var p poll.Poll
			if p, err = poll.FromYAML(name, value); err == nil {
				err = p.CheckKind(check.Names())
			}
			if err == nil {
				c.polls = append(c.polls, p)
				shown := p.Redacted()
				c.parts = append(c.parts, part{key + "." + name, fmt.Sprintf("%s %s, %s", shown.Kind, shown.Target, when(p)), where})
			}
		default:
			var d Duty
			if d, err = readDuty(name, value); err == nil {
				c.duties = append(c.duties, d)
				c.parts = append(c.parts, part{key + "." + name, strings.Join(d.Command, " "), where})
			}
		}
		seen[name] = true
		if err == nil {
			continue
		}
		each := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			each = joined.Unwrap()
		}
		for _, err := range each {
			c.errs = append(c.errs, &Error{where, err})
		}
	}
}

func when(p poll.Poll) string {
	switch {
	case !p.Enabled:
		return "not enabled"
	case p.Cron != "":
		return strings.TrimSpace("cron " + p.Cron + " " + p.TimeZone)
	}
	return "every " + p.Interval.String()
}

// readDuty reads one entry of duties.
func readDuty(name string, n *yaml.Node) (Duty, error) {
	d := Duty{Name: name, Restart: "on-failure"}
	var errs []error
	refuse := func(key, value, rule string) {
		errs = append(errs, &regent.ConfigError{Key: strings.TrimSuffix("duties."+name+"."+key, "."), Value: value, Rule: rule})
	}
	if name == "cluster-health" || name == "polls" {
		refuse("", strconv.Quote(name), "must have another name: every leader has a duty of this one")
	}
	if !partName.MatchString(name) {
		refuse("", fmt.Sprintf("%.100q", name), "must have a name of 1 to 100 of A-Z, a-z, 0-9, dot, underscore and hyphen")
	}
	if n = target(n); n.Kind != yaml.MappingNode || tagged(n) {
		refuse("", "(set)", "must be a mapping of keys such as command and restart")
		return d, errors.Join(errs...)
	}
	known := []string{"command", "dir", "env", "restart"}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, target(n.Content[i+1])
		scalar := value.Kind == yaml.ScalarNode && !null(value) && !tagged(value)
		switch {
		case key == "command" && value.Kind == yaml.SequenceNode:
			for _, word := range value.Content {
				if word = target(word); word.Kind != yaml.ScalarNode {
					refuse(key, "[…]", "must be a list of words")
					break
				}
				d.Command = append(d.Command, word.Value)
			}
		case key == "command" && scalar && !strings.ContainsAny(value.Value, " \t"):
			d.Command = []string{value.Value}
		case key == "command":
			refuse(key, fmt.Sprintf("%.100q", value.Value), `must be a list of words, as in [sync, --all]: there is no shell that would split it`)
		case key == "dir" && scalar:
			d.Dir = value.Value
		case key == "restart" && scalar:
			d.Restart = value.Value
		case key == "env" && value.Kind == yaml.MappingNode:
			d.Env = map[string]string{}
			for j := 0; j+1 < len(value.Content); j += 2 {
				d.Env[value.Content[j].Value] = target(value.Content[j+1]).Value
			}
		case slices.Contains(known, key):
			refuse(key, "(set)", "must be "+map[string]string{"dir": "a path", "restart": "a word", "env": "a mapping of names to values"}[key])
		default:
			errs = append(errs, fmt.Errorf("unknown key duties.%s.%.80s%s", name, key, suggest(key, "", known)))
		}
	}
	if len(d.Command) == 0 || d.Command[0] == "" {
		if len(errs) == 0 {
			refuse("command", "(none)", "must name a program")
		}
	}
	d.refuseNUL(refuse)
	if restarts := []string{"on-failure", "always", "never"}; !slices.Contains(restarts, d.Restart) {
		refuse("restart", fmt.Sprintf("%.100q", d.Restart), "must be "+oneOf(restarts))
	}
	return d, errors.Join(errs...)
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
