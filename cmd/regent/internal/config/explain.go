package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/regentd/regent/cmd/regent/internal/cli/output"
)

// setting is a key with its value, as Explain shows it.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// all returns every key, poll and duty as Explain shows it.
func (s *Settings) all() []setting {
	var all []setting
	for _, k := range Keys() {
		all = append(all, setting{k.Name, k.show(s), s.Origin(k.Name)})
	}

	for _, p := range s.entries {
		all = append(all, setting{p.key, p.value, p.origin})
	}
	return all
}

// Explain writes every key with its value and origin, and the warnings: as text, or as one object if format is "json"
// or "yaml". It shows no secret.
func (s *Settings) Explain(w io.Writer, format string) error {
	switch format {
	case "", "text":
		_, err := io.WriteString(w, s.String())
		return err
	case "json", "yaml":
		p := output.Printer{Out: w, Format: output.Format(format)}
		return p.Data(s)
	}

	return fmt.Errorf("output format %q: must be text, json or yaml: %w", format, ErrUsage)
}

// String returns what [Settings.Explain] writes as text, so that a log of all settings holds no secret.
func (s *Settings) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, one := range s.all() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Key, printable(one.Value), printable(one.Origin))
	}

	_ = w.Flush() // a strings.Builder never fails
	for _, warning := range s.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", printable(warning))
	}

	return b.String()
}

// MarshalJSON returns what [Settings.Explain] writes as JSON.
func (s *Settings) MarshalJSON() ([]byte, error) {
	warnings := s.Warnings
	if warnings == nil {
		warnings = []string{}
	}

	return json.Marshal(struct {
		Settings []setting `json:"settings"`
		Warnings []string  `json:"warnings"`
	}{s.all(), warnings})
}

// printable quotes a text that is empty or has characters that cannot be printed.
func printable(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
