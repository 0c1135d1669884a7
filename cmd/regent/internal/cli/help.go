package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// AllKeys is the annotation of a command whose help ends with every key of the configuration.
const AllKeys = "regent_all_keys"

// Groups of commands, in the order of help.
const (
	GroupRun   = "run"
	GroupSee   = "see"
	GroupSteer = "steer"
	GroupSetUp = "setup"
)

// Groups returns the groups of commands with their titles.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: GroupRun, Title: "Run"},
		{ID: GroupSee, Title: "See"},
		{ID: GroupSteer, Title: "Steer"},
		{ID: GroupSetUp, Title: "Set up"},
	}
}

// UseHelp makes a root command print help in the form of this package. It replaces the help command too.
func UseHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _ = WriteHelp(cmd.OutOrStdout(), cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { return WriteHelp(cmd.OutOrStdout(), cmd) })
	root.SetHelpCommand(&cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "the help of a command",
		Long:              "Prints the help of a command, as its flag --help does.",
		Example:           "  regent help run",
		GroupID:           GroupSetUp,
		ValidArgsFunction: completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest := root, args
			for len(rest) > 0 {
				next := child(found, rest[0])
				if next == nil {
					return fmt.Errorf("help %q: no such topic; %s: %w", strings.Join(args, " "),
						choices(found, rest[0]), ErrUsage)
				}
				found, rest = next, rest[1:]
			}
			return WriteHelp(cmd.OutOrStdout(), found)
		},
	})
	root.InitDefaultHelpCmd()
}

// child returns the command below another one that has a name; nil if there is none.
func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name && !c.Hidden {
			return c
		}
	}

	return nil
}

// choices returns what to write instead of a name that no command has.
func choices(cmd *cobra.Command, name string) string {
	names := names(cmd)
	if best := nearest.Name(name, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "there are " + strings.Join(names, ", ")
}

// names returns the names of the commands below a command, those without help left out.
func names(cmd *cobra.Command) []string {
	var all []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			all = append(all, c.Name())
		}
	}

	slices.Sort(all)
	return all
}

func completeCommands(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	found := cmd.Root()
	for _, name := range args {
		if found = child(found, name); found == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}

	return names(found), cobra.ShellCompDirectiveNoFileComp
}

// UnknownCommand returns an error if the arguments name a command that is not there; else nil.
func UnknownCommand(root *cobra.Command, args []string) error {
	cmd := root
	for _, name := range args {
		completion := strings.HasPrefix(name, "__") // the shell's own requests
		if strings.HasPrefix(name, "-") || completion || !cmd.HasSubCommands() {
			return nil
		}

		next := cmd
		for _, c := range cmd.Commands() {
			if c.Name() == name {
				next = c
			}
		}

		switch {
		case next == cmd && cmd == root:
			return fmt.Errorf("unknown command %q; %s: %w", name, choices(cmd, name), ErrUsage)
		case next == cmd && !cmd.Runnable():
			return UsageError(cmd, "unknown command %q; %s", cmd.Name()+" "+name, choices(cmd, name))
		case next == cmd:
			return nil
		}

		cmd = next
	}

	return nil
}

// WriteHelp writes the help of a command: its purpose, examples, flags with defaults and variables, and exit codes.
func WriteHelp(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	for _, paragraph := range strings.Split(strings.TrimSpace(cmd.Long), "\n\n") {
		b.WriteString(strings.Join(config.Wrap(paragraph, helpWidth), "\n") + "\n\n")
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", UseLine(cmd))
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}

	writeCommands(&b, cmd)
	own, keys := Flags(cmd)
	writeFlags(&b, "Flags", own)
	writeFlags(&b, "Keys of the configuration", keys)

	if cmd.Annotations[AllKeys] != "" {
		b.WriteString("\nKeys of the configuration:\n\n")
		if err := config.WriteHelp(&b, "text"); err != nil {
			return err
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s COMMAND --help' describes a command and its flags.\n", cmd.CommandPath())
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// UseLine returns how a command is called.
func UseLine(cmd *cobra.Command) string {
	switch {
	case cmd.HasAvailableSubCommands() && !cmd.Runnable(), !cmd.HasParent():
		return cmd.CommandPath() + " COMMAND [flags]"
	case cmd.HasParent():
		return cmd.Parent().CommandPath() + " " + cmd.Use
	}

	return cmd.Use
}

// Flags returns the flags of a command: its own, and those that are keys of the configuration.
func Flags(cmd *cobra.Command) (own, keys []*pflag.Flag) {
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case f.Name == "help":
			f.Usage = "this text"
			own = append(own, f)
		case config.IsKey(f):
			keys = append(keys, f)
		default:
			own = append(own, f)
		}
	})

	return own, keys
}

// writeCommands writes the commands below a command, by group.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	group := func(title, id string) {
		var rows [][2]string
		for _, c := range cmd.Commands() {
			if c.GroupID == id && c.IsAvailableCommand() {
				rows = append(rows, [2]string{UseLine(c), c.Short})
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(b, "\n%s:\n", title)
		}
		for _, row := range rows {
			twoColumns(b, row[0], row[1], 40)
		}
	}

	for _, g := range cmd.Groups() {
		group(g.Title, g.ID)
	}
	group("Commands", "")
}

func writeFlags(b *strings.Builder, title string, flags []*pflag.Flag) {
	if len(flags) > 0 {
		fmt.Fprintf(b, "\n%s:\n", title)
	}
	for _, f := range flags {
		name, text := DescribeFlag(f)
		twoColumns(b, name, text, 30)
	}
}

// DescribeFlag returns a flag as it is written, and its description with its default.
func DescribeFlag(f *pflag.Flag) (name, text string) {
	value, text := pflag.UnquoteUsage(f)
	name = "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}

	if value != "" && f.NoOptDefVal == "" {
		name += " " + strings.ToUpper(value)
	}
	switch {
	case f.Name == "help" || strings.Contains(text, "[default "):
	case f.DefValue == "":
		text += ` [default ""]`
	default:
		text += fmt.Sprintf(" [default %s]", f.DefValue)
	}

	return name, text
}

// helpWidth is the longest line of help.
const helpWidth = 100

// twoColumns writes a name and its description, which begins at a column. A longer name has a line of its own.
func twoColumns(b *strings.Builder, name, text string, column int) {
	line := "  " + name
	if len(line) > column-2 {
		b.WriteString(line + "\n")
		line = ""
	}

	for _, part := range config.Wrap(text, helpWidth-column) {
		fmt.Fprintf(b, "%-*s%s\n", column, line, part)
		line = ""
	}
}
