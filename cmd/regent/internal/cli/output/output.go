// Package output prints what commands have found: as a table for people, as JSON or YAML for programs. Colour is used
// on a terminal only, and not if the variable NO_COLOR is set.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format is how a command prints.
type Format string

// Formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns the names of all formats.
func Formats() []string { return []string{string(Table), string(JSON), string(YAML)} }

// String implements [pflag.Value].
func (f *Format) String() string { return string(*f) }

// Type returns the type of the value, as help shows it.
func (f *Format) Type() string { return "format" }

// Set implements [pflag.Value].
func (f *Format) Set(text string) error {
	for _, name := range Formats() {
		if text == name {
			*f = Format(text)
			return nil
		}
	}

	return fmt.Errorf("must be %s or %s", strings.Join(Formats()[:2], ", "), YAML)
}

// Printer prints to a stream.
type Printer struct {
	Out    io.Writer
	Format Format
	Colour bool
}

// Data prints a value as JSON or YAML. Both have the fields of the JSON form, in their order.
func (p *Printer) Data(value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}

	if p.Format == YAML {
		return p.yaml(b.Bytes())
	}
	_, err := p.Out.Write(b.Bytes())
	return err
}

// Line prints a value as one document of a stream: a line of JSON, or a YAML document.
func (p *Printer) Line(value any) error {
	if p.Format == YAML {
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
		return p.Data(value)
	}

	e := json.NewEncoder(p.Out)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// yaml prints JSON as YAML, which is a superset of it.
func (p *Printer) yaml(text []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}

	plain(&n)
	e := yaml.NewEncoder(p.Out)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return err
	}

	return e.Close()
}

// plain removes the style of JSON. The encoder still quotes texts that would be read as another type.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plain(child)
	}
}

// Printf prints a text.
func (p *Printer) Printf(format string, args ...any) { fmt.Fprintf(p.Out, format, args...) }

// Colours reports whether a stream gets colour: it is a terminal, and the environment does not forbid it.
func Colours(out io.Writer, environ []string) bool {
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}

	return Terminal(out)
}

// Terminal reports whether a stream is a terminal.
func Terminal(stream any) bool {
	if s, ok := stream.(*Stream); ok {
		stream = s.out
	}
	f, ok := stream.(*os.File)
	return ok && f != nil && terminal(f)
}
