package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/config"
)

// update makes tests write the files that they compare with.
var update = flag.Bool("update", false, "write docs/CLI.md, docs/man and the golden files")

const (
	docsDir = "../../docs"

	referenceIntro = `# Command line

This page and the man pages in [man](man) are written by a test from the commands themselves:
` + "`make reference`" + `. ` + "`regent COMMAND --help`" + ` prints the same, with every key of the configuration.

Commands that ask a cluster ask a node: that of ` + "`--addr`" + `, of the variable ` + "`REGENT_ADDR`" + `, of the key
` + "`listen`" + `, or 127.0.0.1:7468. With ` + "`--store`" + ` they ask the store itself; polls, events and what
a node says of itself need a node. ` + "`-o json`" + ` and ` + "`-o yaml`" + ` print the same data. Colour is used on a
terminal only, and not if ` + "`NO_COLOR`" + ` is set. Errors go to standard error, with what to do next.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it failed, was refused, or something is wrong; the text says what |
| 64 | the command line makes no sense |
| 69 | neither a node nor the store answers |
| 75 | not done within the timeout |
| 78 | the configuration or the store must be changed first |

Commands with other codes say so below.
`
)

// TestReference compares docs/CLI.md and the man pages with the commands. With -update it writes them.
func TestReference(t *testing.T) {
	files := map[string]string{"CLI.md": reference(referenceRoot())}
	for name, page := range manPages(t, referenceRoot()) {
		files[filepath.Join("man", name)] = page
	}

	if *update {
		if err := os.MkdirAll(filepath.Join(docsDir, "man"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range files {
		compareFile(t, filepath.Join(docsDir, name), want)
	}

	old, err := filepath.Glob(filepath.Join(docsDir, "man", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if _, ok := files[filepath.Join("man", filepath.Base(path))]; ok {
			continue
		}
		if *update {
			_ = os.Remove(path)
			continue
		}
		t.Errorf("%s is the page of no command: remove it", path)
	}
}

// compareFile compares a file with what it should hold. With -update it writes the file.
func compareFile(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	got, err := os.ReadFile(path)
	switch {
	case err != nil:
		t.Errorf("%v: 'make reference' writes it", err)
	case string(got) != want:
		t.Errorf("%s is not current: 'make reference' writes it; first difference: %s", path,
			firstDifference(string(got), want))
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

func referenceRoot() *cobra.Command {
	root := newRoot(streams{out: io.Discard, errs: io.Discard})
	root.DisableAutoGenTag = true
	return root
}

// commandsOf returns the commands of a tree that have help, by name.
func commandsOf(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			all = append(all, c)
			all = append(all, commandsOf(c)...)
		}
	}

	slices.SortFunc(all, func(a, b *cobra.Command) int { return strings.Compare(a.CommandPath(), b.CommandPath()) })
	return all
}

// reference returns docs/CLI.md.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(referenceIntro)

	all := commandsOf(root)
	b.WriteString("\n| command | what |\n|---|---|\n")
	for _, c := range all {
		anchor := strings.ReplaceAll(c.CommandPath(), " ", "-")
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), anchor, c.Short)
	}

	for _, c := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		for paragraph := range strings.SplitSeq(strings.TrimSpace(c.Long), "\n\n") {
			b.WriteString(strings.Join(wrapped(paragraph, 100), "\n") + "\n\n")
		}
		fmt.Fprintf(&b, "```text\n%s\n```\n", cli.UseLine(c))
		if c.HasExample() {
			example := regexp.MustCompile(`(?m)^  `).ReplaceAllString(c.Example, "")
			fmt.Fprintf(&b, "\nExamples:\n\n```sh\n%s\n```\n", example)
		}
		writeFlagTable(&b, c)
	}

	return b.String()
}

// writeFlagTable writes the flags of a command. Where every key is a flag, it writes only those of the command itself.
func writeFlagTable(b *strings.Builder, c *cobra.Command) {
	own, keys := cli.Flags(c)
	some := len(keys) < len(config.Keys())
	if some {
		own = append(own, keys...)
	}

	b.WriteString("\n| flag | what |\n|---|---|\n")
	for _, f := range own {
		name, text := cli.DescribeFlag(f)
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace(name), strings.ReplaceAll(text, "|", "\\|"))
	}
	if !some {
		b.WriteString("\nEvery key of the configuration is a flag too: `regent help config`.\n")
	}
}

// wrapped splits a text into lines of at most width bytes.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}

	return append(lines, line)
}

// manPages returns the man page of each command, by file name.
func manPages(t *testing.T, root *cobra.Command) map[string]string {
	t.Helper()
	pages := map[string]string{}
	date := time.Unix(0, 0)
	for _, c := range append(commandsOf(root), root) {
		var b bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Regent", Manual: "Regent"}
		if err := doc.GenMan(c, header, &b); err != nil {
			t.Fatal(err)
		}

		text := strings.Replace(b.String(), `"Jan 1970"`, `""`, 1)
		pages[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = text
	}

	return pages
}

// TestEveryCommandIsDescribed checks that each command has what its help, its man page and the reference need.
func TestEveryCommandIsDescribed(t *testing.T) {
	all := commandsOf(referenceRoot())
	if len(all) < 20 {
		t.Fatalf("%d commands", len(all))
	}

	for _, c := range all {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s has no description or no example", c.CommandPath())
		}
		if strings.HasSuffix(c.Short, ".") || len(c.Short) > 100 {
			t.Errorf("%s: %q is no short phrase", c.CommandPath(), c.Short)
		}
		if c.Runnable() && !strings.Contains(c.Long, "Exit codes: ") && c.Name() != "help" && c.Name() != "version" &&
			c.Name() != "demo" {
			t.Errorf("%s does not name its exit codes", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if !strings.Contains(line, "regent "+strings.TrimPrefix(c.CommandPath(), "regent ")) &&
				!strings.Contains(line, "regent help") {
				t.Errorf("%s: the example %q is about another command", c.CommandPath(), line)
			}
		}

		var help bytes.Buffer
		if err := cli.WriteHelp(&help, c); err != nil {
			t.Fatal(err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, text := cli.DescribeFlag(f)
			if f.Hidden || f.Name == "help" {
				return
			}
			if !strings.Contains(help.String(), "--"+f.Name) || !strings.Contains(text, "[default ") {
				t.Errorf("%s: the help of --%s does not say its default: %s", c.CommandPath(), f.Name, text)
			}
			if config.IsKey(f) && !strings.Contains(text, "[variable ") {
				t.Errorf("%s: the help of --%s does not say its variable: %s", c.CommandPath(), f.Name, text)
			}
		})
		for i, line := range strings.Split(help.String(), "\n") {
			if n := len([]rune(line)); n > 120 {
				t.Errorf("%s --help: line %d has %d columns", c.CommandPath(), i+1, n)
			}
		}
	}
}
