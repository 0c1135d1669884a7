package poll

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// setting is a key with its value in the text of a definition. The key determines the type of the value, as in the rest
// of the configuration.
type setting struct {
	key     string
	given   string // the key in the text, if that is another name of key
	text    string
	rule    string    // that the syntax of the value breaks; text then stands for the value in the error
	mapping []setting // nil if the value is no mapping
	list    bool      // text is a JSON list
}

const (
	nullRule    = "must have a value; leave the key out for the default"
	listRule    = "cannot be a list"
	mappingRule = "cannot be a mapping"
	onceRule    = "must be set only once"
)

// Values of settings as errors show them.
const (
	someMapping = shown("{…}")
	someList    = shown("[…]")
	someValue   = shown("(set)")
)

// fields returns the destination of each key. The type of the pointer is the type of the key.
func (p *Poll) fields() map[string]any {
	return map[string]any{
		"name":        &p.Name,
		"kind":        &p.Kind,
		"target":      &p.Target,
		"interval":    &p.Interval,
		"cron":        &p.Cron,
		"timeZone":    &p.TimeZone,
		"timeout":     &p.Timeout,
		"retries":     &p.Retries,
		"assign":      &p.Assign,
		"concurrency": &p.Concurrency,
		"enabled":     &p.Enabled,
		"options":     &p.Options,
		"since":       &p.Since,
	}
}

// Keys returns the keys of a definition.
func Keys() []string { return slices.Sorted(maps.Keys(new(Poll).fields())) }

// build returns the poll that settings define, with defaults for missing keys. If the name is empty, a setting must
// give it.
func build(name string, settings []setting) (Poll, error) {
	if i := slices.IndexFunc(settings, func(s setting) bool { return s.key == "name" }); i >= 0 && name == "" {
		name = settings[i].text
	}

	v := newViolations(name)
	p := Poll{Enabled: true}
	p.apply(settings, v)
	v.check(p.Name == name || p.Name == "", "name", p.Name,
		"must be the name that the poll is defined under, or be left out")
	if err := v.err(); err != nil {
		return Poll{}, err
	}

	p.Name = name
	p = p.WithDefaults()
	p.apply(settings, v) // again: a value that was set wins over a default, even 0
	p.Name = name
	if err := p.Validate(); err != nil {
		return Poll{}, err
	}

	return p, nil
}

// apply sets the fields that the settings name.
func (p *Poll) apply(settings []setting, v *violations) {
	fields := p.fields()
	seen := map[string]bool{}
	for _, s := range settings {
		field, known := fields[s.key]
		_, options := field.(*map[string]string)
		key := cmp.Or(s.given, s.key)
		switch {
		case !known:
			v.refuse(printable(s.key), someValue, "is not a key of a poll%s", suggestion(s.key, fields))
		case seen[s.key]:
			v.refuse(key, someValue, onceRule)
		case s.rule != "":
			v.refuse(key, shown(s.text), "%s", s.rule)
		case options:
			p.applyOptions(s, v)
		case s.mapping != nil:
			v.refuse(key, someMapping, mappingRule)
		case s.list:
			v.refuse(key, someList, listRule)
		default:
			rule := parse(field, s.text)
			v.check(rule == "", key, s.text, "%s", rule)
		}

		seen[s.key] = true
	}
}

func (p *Poll) applyOptions(options setting, v *violations) {
	if options.mapping == nil {
		v.refuse(options.key, someValue, "must be a mapping")
	}

	p.Options = nil
	for _, s := range options.mapping {
		_, twice := p.Options[s.key]
		switch key := options.key + "." + printable(s.key); {
		case s.rule != "":
			v.refuse(key, shown(s.text), "%s", s.rule)
		case s.mapping != nil:
			v.refuse(key, someMapping, mappingRule)
		case twice:
			v.refuse(key, someValue, onceRule)
		}

		if p.Options == nil {
			p.Options = map[string]string{}
		}
		p.Options[s.key] = s.text
	}
}

// parse sets a field to the value of a text. If it cannot, it returns the rule that the text breaks.
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
