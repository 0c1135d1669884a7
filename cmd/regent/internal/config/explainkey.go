package config

import (
	"fmt"
	"io"
	"strings"
)

// KeyNames returns the names of all keys.
func KeyNames() []string {
	var all []string
	for _, k := range Keys() {
		all = append(all, k.Name)
	}

	return all
}

// ExplainKey writes one key: what it does, its value and where that comes from, its flag, variable and defaults. It
// shows no secret.
func (s *Settings) ExplainKey(w io.Writer, name string) error {
	for _, k := range Keys() {
		if k.Name != name {
			continue
		}

		variable := k.Variable()
		if alias := aliases()[k.Name]; alias != "" {
			variable += " or " + alias
		}

		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n\n", k.Name, k.Doc)
		fmt.Fprintf(&b, "value     %s\n", printable(k.show(s)))
		fmt.Fprintf(&b, "from      %s\n", printable(s.Origin(k.Name)))
		fmt.Fprintf(&b, "type      %s\n", k.Type())
		fmt.Fprintf(&b, "flag      --%s\n", k.Flag())
		fmt.Fprintf(&b, "variable  %s\n", variable)
		fmt.Fprintf(&b, "default   %s\n", k.allDefaults())
		_, err := io.WriteString(w, b.String())
		return err
	}

	return fmt.Errorf("there is no key %q%s: %w", name, suggest(name, "", KeyNames()), ErrUsage)
}
