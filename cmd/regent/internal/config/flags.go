package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Source holds the flags of a command line, once it is parsed.
type Source struct {
	set    *pflag.FlagSet
	values map[string]string // by key
}

// keyOf is the annotation of a flag that is a key of the configuration: its name.
const keyOf = "regent_key"

// Flags adds a flag to set for each of the keys, or for every key if none is named. A command can have further flags of
// its own. After [Parse], [Source.Load] reads the rest: variables and the file may hold any key, whatever the command
// takes as a flag. Flags panics for a key that is not in the table.
func Flags(set *pflag.FlagSet, keys ...string) *Source {
	s := &Source{set: set, values: map[string]string{}}
	for _, name := range keys {
		if !slices.ContainsFunc(Keys(), func(k Key) bool { return k.Name == name }) {
			panic("config: no key " + name)
		}
	}

	for _, k := range Keys() {
		if len(keys) == 0 || slices.Contains(keys, k.Name) {
			s.add(k)
		}
	}

	return s
}

// add adds the flag of a key.
func (s *Source) add(k Key) {
	f := s.set.VarPF(&flagValue{s, k}, k.Flag(), "", k.usage())
	f.Annotations = map[string][]string{keyOf: {k.Name}}

	if k.Type() == "boolean" {
		f.NoOptDefVal = "true" // --eligible is --eligible=true
	}
}

// IsKey reports whether a flag is a key of the configuration.
func IsKey(f *pflag.Flag) bool { return len(f.Annotations[keyOf]) > 0 }

// usage returns the description of the flag: what it does, its default, and its variables.
func (k Key) usage() string {
	variables := k.Variable()
	if alias := aliases()[k.Name]; alias != "" {
		variables += " or " + alias
	}

	return fmt.Sprintf("%s [default %s] [variable %s]", k.Doc, k.allDefaults(), variables)
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

// String returns nothing: defaults depend on the profile.
func (v *flagValue) String() string { return "" }

// Type returns the type of the value, as help shows it.
func (v *flagValue) Type() string { return v.key.Type() }

// Parse parses args. It returns [pflag.ErrHelp] for -h and --help, and [ErrUsage] for arguments that make no sense. The
// error shows no value, which could be a secret.
func Parse(set *pflag.FlagSet, args []string) error {
	set.Init(set.Name(), pflag.ContinueOnError)
	set.Usage = func() {} // pflag would print the usage

	switch err := set.Parse(args); {
	case err == pflag.ErrHelp:
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", FlagText(set, err), ErrUsage)
	}

	return CheckBooleans(set, args)
}

// FlagText returns an error of the flag package as the user of a command line should read it.
func FlagText(set *pflag.FlagSet, err error) string {
	var known []string
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})

	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var syntax *pflag.InvalidSyntaxError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
		return fmt.Sprintf("unknown flag -%s%s", name, suggest(name, "--", known))
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		return fmt.Sprintf("unknown flag --%s%s", name, suggest(name, "--", known))
	case errors.As(err, &missing):
		return fmt.Sprintf("flag --%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &syntax):
		text, _, _ := strings.Cut(syntax.GetSpecifiedFlag(), "=")
		return "bad flag syntax: " + text
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		rule := fmt.Sprint(errors.Unwrap(invalid))
		switch f.Value.Type() { // pflag has the words of the packages that parse them
		case "duration":
			rule = "must be a duration such as 500ms, 30s or 5m"
		case "int":
			rule = "must be a whole number"
		}
		return fmt.Sprintf("invalid value %q for flag --%s: %s", invalid.GetValue(), f.Name, rule)
	}

	return err.Error()
}

// CheckBooleans refuses a boolean flag with a value of its own: "--eligible false" would mean true.
func CheckBooleans(set *pflag.FlagSet, args []string) error {
	for i, arg := range args[:max(0, len(args)-1)] {
		value := args[i+1]
		if arg == "--" {
			return nil
		}
		if value != "true" && value != "false" || !strings.HasPrefix(arg, "--") {
			continue
		}

		name := strings.TrimPrefix(arg, "--")
		if f := set.Lookup(name); f != nil && f.NoOptDefVal != "" {
			return fmt.Errorf("write --%s=%s, not --%[1]s %[2]s: %w", name, value, ErrUsage)
		}
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
