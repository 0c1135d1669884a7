package poll

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// setting is a key and what it was set to, as the text that is written there: the key gives it a type, as in the rest of the configuration.
type setting struct {
	key     string
	text    string
	rule    string    // that its form breaks already; text is then a picture of it
	mapping []setting // nil if it is none
	list    bool      // text is a list in JSON
}

const (
	nullRule    = "must have a value; leave the key out for the default"
	listRule    = "cannot be a list"
	mappingRule = "cannot be a mapping"
	onceRule    = "must be there once"
)

// fields returns where the value of each key is kept; the type of the pointer is the type of the key.
func (p *Poll) fields() map[string]any {
	return map[string]any{
		"name": &p.Name, "kind": &p.Kind, "target": &p.Target, "interval": &p.Interval, "cron": &p.Cron, "timeZone": &p.TimeZone,
		"timeout": &p.Timeout, "retries": &p.Retries, "assign": &p.Assign, "concurrency": &p.Concurrency, "enabled": &p.Enabled,
		"options": &p.Options, "since": &p.Since,
	}
}

// build makes a poll of settings, with defaults for what they leave out. If the name is empty, one of them gives it.
func build(name string, settings []setting) (Poll, error) {
	if i := slices.IndexFunc(settings, func(s setting) bool { return s.key == "name" }); i >= 0 && name == "" {
		name = settings[i].text
	}
	p, f := Poll{Enabled: true}, &faults{key: keyOf(name)}
	p.take(settings, f)
	f.check(p.Name == name || p.Name == "", "name", p.Name, "must be as it is where the poll is defined, or be left out")
	if p.Name = name; len(f.errs) > 0 {
		return Poll{}, errors.Join(f.errs...)
	}
	p = p.WithDefaults()
	p.take(settings, f) // again: what was written wins, even a 0
	if p.Name = name; p.Validate() != nil {
		return Poll{}, p.Validate()
	}
	return p, nil
}

// take sets the fields that settings are for.
func (p *Poll) take(settings []setting, f *faults) {
	fields, seen := p.fields(), map[string]bool{}
	for _, e := range settings {
		field, known := fields[e.key]
		_, options := field.(*map[string]string)
		switch {
		case !known:
			f.refuse(shorten(e.key), "(set)", "is no key of a poll%s", suggestion(e.key, fields))
		case seen[e.key]:
			f.refuse(e.key, "(set)", onceRule)
		case e.rule != "":
			f.refuse(e.key, e.text, "%s", e.rule)
		case options:
			p.takeOptions(e, f)
		case e.mapping != nil:
			f.refuse(e.key, "{…}", mappingRule)
		case e.list:
			f.refuse(e.key, "[…]", listRule)
		default:
			rule := parse(field, e.text)
			f.check(rule == "", e.key, e.text, "%s", rule)
		}
		seen[e.key] = true
	}
}

func (p *Poll) takeOptions(options setting, f *faults) {
	if options.mapping == nil {
		f.refuse(options.key, "(set)", "must be a mapping")
	}
	p.Options = nil
	for _, e := range options.mapping {
		_, twice := p.Options[e.key]
		switch key := options.key + "." + shorten(e.key); {
		case e.rule != "":
			f.refuse(key, e.text, "%s", e.rule)
		case e.mapping != nil:
			f.refuse(key, "{…}", mappingRule)
		case twice:
			f.refuse(key, "(set)", onceRule)
		}
		if p.Options == nil {
			p.Options = map[string]string{}
		}
		p.Options[e.key] = e.text
	}
}

// parse sets a field to what text says. If it cannot, it returns the rule that the text breaks.
func parse(field any, text string) (rule string) {
	var err error
	switch p := field.(type) {
	case *string:
		*p = text
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			return "must be true or false"
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			return "must be a whole number"
		}
	case *Duration:
		if *p, err = parseDuration(text); err != nil {
			return durationRule
		}
	case *time.Time:
		if *p, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return "must be a time, such as 2026-01-02T15:04:05Z"
		}
	}
	return ""
}

func suggestion(key string, fields map[string]any) string {
	if near := nearest.Name(key, slices.Sorted(maps.Keys(fields))); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// shorten returns a key that may be anything as an error can show it.
func shorten(key string) string {
	if validName(key) {
		return key
	}
	return strconv.Quote(key[:min(len(key), nameMax)])
}
