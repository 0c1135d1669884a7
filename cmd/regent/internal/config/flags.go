package config

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// Source is what the flags of a command line say, once it is parsed.
type Source struct {
	set    *flag.FlagSet
	values map[string]string // by key
}

// Flags adds a flag for each of the keys to set, or for every key if none is named, so that a command can have flags of its own beside
// them. After [Parse], Load on the result reads the rest: variables and the file may hold any key, whatever the command takes as a flag.
// A key that is not in the table is a mistake of the caller, and panics.
func Flags(set *flag.FlagSet, keys ...string) *Source {
	s := &Source{set: set, values: map[string]string{}}
	table := map[string]Key{}
	for _, k := range Keys() {
		table[k.Name] = k
		if len(keys) == 0 {
			set.Var(&flagValue{s, k}, k.Flag(), k.Doc)
		}
	}
	for _, name := range keys {
		k, ok := table[name]
		if !ok {
			panic("config: no key " + name)
		}
		set.Var(&flagValue{s, k}, k.Flag(), k.Doc)
	}
	return s
}

// flagValue keeps the text of a flag until it is known whether it is valid, so that all mistakes are found at once.
type flagValue struct {
	source *Source
	key    Key
}

func (v *flagValue) Set(text string) error {
	if old, ok := v.source.values[v.key.Name]; ok && v.key.Type() == "labels" { // which are given one by one as well
		text = old + "," + text
	}
	v.source.values[v.key.Name] = text
	return nil
}

// String returns nothing: defaults depend on the profile. The flag package also calls it on a zero value.
func (v *flagValue) String() string { return "" }

// IsBoolFlag lets the flag package take --eligible for --eligible=true.
func (v *flagValue) IsBoolFlag() bool { return v.key.Type() == "boolean" }

// Parse parses args, and returns [ErrUsage] for what makes no sense, but [flag.ErrHelp] as it is. It shows no value, which could be a
// secret.
func Parse(set *flag.FlagSet, args []string) error {
	set.Init(set.Name(), flag.ContinueOnError)
	out := set.Output()
	set.SetOutput(io.Discard) // the flag package would print its errors and return them
	defer set.SetOutput(out)
	err := set.Parse(args)
	if err == flag.ErrHelp {
		return err
	}
	if err != nil {
		what := err.Error()
		if name, ok := strings.CutPrefix(what, "flag provided but not defined: -"); ok {
			var known []string
			set.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
			what = fmt.Sprintf("unknown flag --%s%s", name, suggest(name, "--", known))
		} else if strings.HasPrefix(what, "bad flag syntax: ") {
			what, _, _ = strings.Cut(what, "=")
		}
		return fmt.Errorf("%s: %w", what, ErrUsage)
	}
	// A boolean takes no argument of its own: "--eligible false" would mean true, and end the flags.
	if n := len(args) - set.NArg(); n > 0 && set.NArg() > 0 && (set.Arg(0) == "true" || set.Arg(0) == "false") {
		name := strings.TrimLeft(args[n-1], "-")
		if f := set.Lookup(name); f != nil && strings.HasPrefix(args[n-1], "-") {
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				return fmt.Errorf("write --%s=%s, not --%[1]s %[2]s: %w", name, set.Arg(0), ErrUsage)
			}
		}
	}
	return nil
}

// given returns what the flags set.
func (s *Source) given() map[string]given {
	all := map[string]given{}
	for _, k := range Keys() {
		if text, ok := s.values[k.Name]; ok {
			all[k.Name] = given{text: text, origin: "flag --" + k.Flag()}
		}
	}
	return all
}
