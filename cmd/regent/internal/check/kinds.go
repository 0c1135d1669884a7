package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// probe makes a check whose definition is valid.
type probe func(ctx context.Context) (Outcome, error)

// builtin returns a function for each kind that reads its definition. The options that it reads are the known options,
// so that validation and execution cannot differ.
func builtin() map[string]func(*reader) probe {
	return map[string]func(*reader) probe{
		"http": readHTTP,
		"tcp":  readTCP,
		"dns":  readDNS,
		"icmp": readICMP,
		"exec": readExec,
	}
}

// Names returns the names of all kinds that are built in, sorted, whether they can be run here or not.
func Names() []string { return slices.Sorted(maps.Keys(builtin())) }

// Builtin reports whether the kind is one of this package.
func Builtin(kind string) bool { return builtin()[kind] != nil }

// Fault is a rule that a definition breaks.
type Fault struct {
	Key   string // target, or options.NAME
	Value string // without secrets
	Rule  string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s %s: %s %s", f.Key, f.Value, f.Key, f.Rule) }

// Validate returns every rule that target and options break. It returns nothing for a kind that is not built in.
func Validate(kind, target string, options map[string]string) []*Fault {
	if !Builtin(kind) {
		return nil
	}
	_, faults := parse(kind, target, options)
	return faults
}

// parse reads a definition, and returns its probe and the rules that it breaks.
func parse(kind, target string, options map[string]string) (probe, []*Fault) {
	r := &reader{target: target, options: options, known: map[string]bool{}}
	p := builtin()[kind](r)
	r.refuseUnknown(kind)
	return p, r.faults
}
