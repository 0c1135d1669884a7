package config

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// Source holds the flags of a command line, once it is parsed.
type Source struct {
	set    *flag.FlagSet
	values map[string]string // by key
}

// Flags adds a flag to set for each of the keys, or for every key if none is named. A command can have further flags of
// its own. After [Parse], [Source.Load] reads the rest: variables and the file may hold any key, whatever the command
// takes as a flag. Flags panics for a key that is not in the table.
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

// flagValue keeps the text of a flag unchecked, so that all mistakes are reported at once.
type flagValue struct {
	source *Source
	key    Key
}

func (v *flagValue) Set(text string) error {
	if old, ok := v.source.values[v.key.Name]; ok && v.key.Type() == "labels" { // labels may be given one by one
		text = old + "," + text
	}
	v.source.values[v.key.Name] = text
	return nil
}

// String returns nothing: defaults depend on the profile. The flag package also calls it on a zero value.
func (v *flagValue) String() string { return "" }

// IsBoolFlag lets the flag package take --eligible for --eligible=true.
func (v *flagValue) IsBoolFlag() bool { return v.key.Type() == "boolean" }

// Parse parses args. It returns [flag.ErrHelp] for -h and --help, and [ErrUsage] for arguments that make no sense. The
// error shows no value, which could be a secret.
func Parse(set *flag.FlagSet, args []string) error {
	set.Init(set.Name(), flag.ContinueOnError)
	out := set.Output()
	set.SetOutput(io.Discard) // the flag package would print its errors as well as return them
	defer set.SetOutput(out)

	switch err := set.Parse(args); {
	case err == flag.ErrHelp:
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", usageText(set, err), ErrUsage)
	}

	return checkBooleans(set, args)
}

// usageText returns an error of the flag package as the user of a command line should read it.
func usageText(set *flag.FlagSet, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		set.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		return fmt.Sprintf("unknown flag --%s%s", name, suggest(name, "--", known))
	}

	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Sprintf("flag --%s needs a value", name)
	}

	if strings.HasPrefix(text, "bad flag syntax: ") {
		text, _, _ = strings.Cut(text, "=")
	}
	return text
}

// checkBooleans refuses a boolean flag with a value of its own. "--eligible false" would mean true, and end the flags.
func checkBooleans(set *flag.FlagSet, args []string) error {
	value := set.Arg(0)
	n := len(args) - set.NArg()
	if n == 0 || value != "true" && value != "false" {
		return nil
	}

	last := args[n-1]
	name := strings.TrimLeft(last, "-")
	f := set.Lookup(name)
	if f == nil || !strings.HasPrefix(last, "-") {
		return nil
	}
	if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		return fmt.Errorf("write --%s=%s, not --%[1]s %[2]s: %w", name, value, ErrUsage)
	}

	return nil
}

// given returns the values that the flags set, by key.
func (s *Source) given() map[string]given {
	all := map[string]given{}
	for _, k := range Keys() {
		if text, ok := s.values[k.Name]; ok {
			all[k.Name] = given{text: text, origin: "flag --" + k.Flag()}
		}
	}

	return all
}
