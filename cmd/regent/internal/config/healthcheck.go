package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
)

// HealthCheck is a command or a URL that decides whether the node may lead.
type HealthCheck struct {
	Command  []string // the program and its arguments; no shell
	URL      string
	Interval time.Duration
	Timeout  time.Duration // of one check
	Failures int           // so many in a row make the node unhealthy
}

// healthCheckKey is the section of the file with the health check.
const healthCheckKey = "healthCheck"

// Defaults and limits of the health check.
const (
	checkInterval    = 5 * time.Second
	checkTimeout     = 2 * time.Second
	checkFailures    = 2
	checkIntervalMin = 100 * time.Millisecond
	checkIntervalMax = time.Hour
	checkFailuresMax = 100
)

// readHealthCheck reads the section healthCheck.
func (c *contents) readHealthCheck(n *yaml.Node, where string) {
	n = target(n)
	if null(n) {
		return
	}

	r := &healthCheckReader{check: HealthCheck{Interval: checkInterval, Failures: checkFailures}}
	if n.Kind != yaml.MappingNode || tagged(n) {
		r.refuse("", "(set)", "must be a mapping of keys such as command or url, interval, timeout and failures")
	} else {
		for i := 0; i+1 < len(n.Content); i += 2 {
			r.read(n.Content[i].Value, target(n.Content[i+1]))
		}
		if len(r.errs) == 0 {
			r.complete()
		}
	}

	if len(r.errs) == 0 {
		c.healthCheck = &r.check
		c.entries = append(c.entries, entry{healthCheckKey, r.check.String(), where})
	}
	for _, err := range r.errs {
		c.errs = append(c.errs, &Error{where, err})
	}
}

// String returns the check without secrets: arguments of a program may be some.
func (h *HealthCheck) String() string {
	what := "url " + check.Redact(h.URL)
	if len(h.Command) > 0 {
		what = "command " + h.Command[0]
	}

	return fmt.Sprintf("%s, every %v, timeout %v, unhealthy after %d failures", what, h.Interval, h.Timeout, h.Failures)
}

// healthCheckReader reads the keys of a health check.
type healthCheckReader struct {
	check HealthCheck
	seen  []string
	errs  []error
}

// refuse adds an error about a key of the section, or about the section itself if key is empty.
func (r *healthCheckReader) refuse(key, value, rule string) {
	key = strings.TrimSuffix(healthCheckKey+"."+key, ".")
	r.errs = append(r.errs, &regent.ConfigError{Key: key, Value: value, Rule: rule})
}

// read reads one key.
func (r *healthCheckReader) read(key string, value *yaml.Node) {
	if slices.Contains(r.seen, key) {
		r.refuse(key, "(set)", "must be set only once")
		return
	}
	r.seen = append(r.seen, key)

	var field any
	switch key {
	case "command":
		r.readCommand(value)
		return
	case "url":
		field = &r.check.URL
	case "interval":
		field = &r.check.Interval
	case "timeout":
		field = &r.check.Timeout
	case "failures":
		field = &r.check.Failures
	default:
		hint := suggest(key, "", []string{"command", "url", "interval", "timeout", "failures"})
		r.errs = append(r.errs, fmt.Errorf("unknown key %s.%.80s%s", healthCheckKey, key, hint))
		return
	}

	g := fromNode(key, value)
	if g.rule != "" {
		r.refuse(key, g.text, g.rule)
		return
	}
	if rule := parse(field, g.text); rule != "" {
		r.refuse(key, fmt.Sprintf("%.100q", g.text), rule)
	}
}

// readCommand reads a list of words, or one word.
func (r *healthCheckReader) readCommand(value *yaml.Node) {
	words, ok := words(value)
	if !ok {
		r.refuse("command", "(set)",
			"must be a list of words, as in [pg_isready, -q]: there is no shell that would split it")
		return
	}
	r.check.Command = words
}

// words returns a list of words, or a single word as a list. It returns false for anything else.
func words(value *yaml.Node) ([]string, bool) {
	if value.Kind == yaml.ScalarNode && !null(value) && !tagged(value) && !strings.ContainsAny(value.Value, " \t") {
		return []string{value.Value}, true
	}
	if value.Kind != yaml.SequenceNode {
		return nil, false
	}

	var all []string
	for _, word := range value.Content {
		if word = target(word); word.Kind != yaml.ScalarNode || tagged(word) {
			return nil, false
		}
		all = append(all, word.Value)
	}

	return all, true
}

// complete fills in the timeout, and checks the rules that concern all keys.
func (r *healthCheckReader) complete() {
	h := &r.check
	hasCommand := slices.Contains(r.seen, "command")
	hasURL := slices.Contains(r.seen, "url")
	switch {
	case hasCommand && hasURL:
		r.refuse("url", strconv.Quote(check.Redact(h.URL)), "cannot be combined with healthCheck.command")
	case !hasCommand && !hasURL:
		r.refuse("", "(set)", "must have command or url")
	case hasURL:
		r.checkTarget("url", "http", h.URL)
	case len(h.Command) == 0:
		r.refuse("command", "[]", "must name a program")
	default:
		r.checkTarget("command", "exec", h.Command[0])
		if strings.ContainsRune(strings.Join(h.Command[1:], ""), 0) {
			r.refuse("command", "(set)", "must not hold a NUL byte")
		}
	}

	if !slices.Contains(r.seen, "timeout") {
		h.Timeout = min(checkTimeout, h.Interval)
	}
	if h.Interval < checkIntervalMin || h.Interval > checkIntervalMax {
		r.refuse("interval", h.Interval.String(), fmt.Sprintf("must be %v to %v", checkIntervalMin, checkIntervalMax))
	} else if h.Timeout <= 0 || h.Timeout > h.Interval {
		r.refuse("timeout", h.Timeout.String(),
			fmt.Sprintf("must be positive, and at most healthCheck.interval (%v)", h.Interval))
	}
	if h.Failures < 1 || h.Failures > checkFailuresMax {
		r.refuse("failures", strconv.Itoa(h.Failures), fmt.Sprintf("must be 1 to %d", checkFailuresMax))
	}
}

// checkTarget checks the program or the URL by the rules of its kind of check.
func (r *healthCheckReader) checkTarget(key, kind, target string) {
	for _, f := range check.Validate(kind, target, nil) {
		rule := f.Rule
		if kind == "exec" {
			rule = "must begin with an absolute path, or the name of a program without a directory"
		}
		r.refuse(key, f.Value, rule)
	}
}
