package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteHelp writes every key: as text for 'regent help config', or as a table for the documentation if format is
// "markdown".
func WriteHelp(w io.Writer, format string) error {
	var b strings.Builder
	switch format {
	case "", "text":
		helpText(&b)
	case "markdown":
		helpMarkdown(&b)
	default:
		return fmt.Errorf("help format %q: must be text or markdown: %w", format, ErrUsage)
	}

	_, err := io.WriteString(w, b.String())
	return err
}

const helpIntro = `Each key can be a flag, a variable, or a line of a YAML file (--config). The first of these that
sets it wins; the profile sets the rest. A duration is written 1.5s or 500ms; a bare number is milliseconds.

The store memory: is for one process alone, to try things out. sqlite: is for the processes of one machine, redis://,
postgres://, etcd:// and nats:// for those of several, kube:// for pods, s3:// for those that share nothing but a
bucket. With a store s3:// the profile is fleet, unless one is named.

Polls, duties and the health check are in the file alone:

  polls:
    home:
      kind: http                    # http, tcp, dns, icmp, exec
      target: https://example.com/
      interval: 10s                 # or cron: "*/5 * * * *", and timeZone
      timeout: 5s                   # and retries, assign, concurrency, enabled, options
  duties:
    sync:
      command: [rsync, -a, from/, to/]   # runs while the node leads; no shell
      restart: on-failure                # or always, never; and dir, env
  healthCheck:                      # a node whose check fails does not lead, if another one can
    command: [pg_isready, -q]       # or url: http://localhost:8080/healthz
    interval: 5s
    timeout: 2s
    failures: 2                     # so many in a row

`

func helpText(b *strings.Builder) {
	b.WriteString(helpIntro)
	alias := aliases()
	for _, k := range Keys() {
		variable := k.Variable()
		if alias[k.Name] != "" {
			variable += ", " + alias[k.Name]
		}

		fmt.Fprintf(b, "%s\n    --%s %s, %s\n", k.Name, k.Flag(), strings.ToUpper(k.Type()), variable)
		for _, line := range Wrap(k.Doc+".", 96) {
			b.WriteString("    " + line + "\n")
		}
		fmt.Fprintf(b, "    Default: %s\n", k.allDefaults())
	}
}

// allDefaults returns the default, or the default of each profile where they differ.
func (k Key) allDefaults() string {
	var each []string
	same := true
	for _, p := range Profiles() {
		each = append(each, p+" "+printable(k.Default(p)))
		same = same && k.Default(p) == k.Default(Profiles()[0])
	}

	if same {
		return printable(k.Default(Profiles()[0]))
	}
	return strings.Join(each, ", ")
}

func helpMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "| key | flag | variable | type |")
	for _, p := range Profiles() {
		fmt.Fprintf(b, " `%s` |", p)
	}

	b.WriteString(" meaning |\n|" + strings.Repeat("---|", 5+len(Profiles())) + "\n")
	for _, k := range Keys() {
		fmt.Fprintf(b, "| `%s` | `--%s` | `%s` | %s |", k.Name, k.Flag(), k.Variable(), k.Type())
		for _, p := range Profiles() {
			fmt.Fprintf(b, " `%s` |", printable(k.Default(p)))
		}
		fmt.Fprintf(b, " %s |\n", k.Doc)
	}
}
