package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// reader reads a definition, and collects the rules that it breaks.
type reader struct {
	target  string
	options map[string]string
	known   map[string]bool // options that were read; one that ends in a dot is a prefix
	faults  []*Fault
}

func (r *reader) refuse(key, value, rule string) {
	r.faults = append(r.faults, &Fault{key, value, rule})
}

func (r *reader) refuseTarget(rule string) {
	r.refuse("target", strconv.Quote(Redact(r.target)), rule)
}

func (r *reader) refuseOption(name, rule string) {
	r.refuse("options."+name, strconv.Quote(Conceal(name, r.options[name])), rule)
}

// text returns an option, or its default.
func (r *reader) text(name, fallback string) string {
	r.known[name] = true
	if s, ok := r.options[name]; ok {
		return s
	}
	return fallback
}

// boolean returns an option that is true or false.
func (r *reader) boolean(name string, fallback bool) bool {
	b, err := strconv.ParseBool(r.text(name, strconv.FormatBool(fallback)))
	if err != nil {
		r.refuseOption(name, "must be true or false")
	}
	return b
}

// word returns an option that is one of some words, the first by default.
func (r *reader) word(name string, words ...string) string {
	s := r.text(name, words[0])
	if !slices.Contains(words, s) {
		r.refuseOption(name, "must be one of "+strings.Join(words, ", "))
	}
	return s
}

// each calls yield for the options that begin with a prefix, sorted, without the prefix.
func (r *reader) each(prefix string, yield func(name, value string)) {
	r.known[prefix] = true
	for _, name := range slices.Sorted(maps.Keys(r.options)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			yield(rest, r.options[name])
		}
	}
}

// refuseUnknown refuses options that were not read.
func (r *reader) refuseUnknown(kind string) {
	for _, name := range slices.Sorted(maps.Keys(r.options)) {
		prefix, _, dotted := strings.Cut(name, ".")
		if r.known[name] && !strings.HasSuffix(name, ".") || dotted && r.known[prefix+"."] {
			continue
		}

		rule := "is no option of kind " + kind
		if near := nearest.Name(name, slices.Sorted(maps.Keys(r.known))); near != "" {
			rule += ", did you mean " + near + "?"
		}

		r.refuse("options."+oneLine(name, 80), "(set)", rule)
	}
}
