package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/demo"
)

// streams are what a command reads and writes.
type streams struct {
	in        *os.File
	out, errs io.Writer
}

// newRoot returns the tree of all commands.
func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "regent",
		Short: "leader election and cluster coordination",
		Long:  rootLong,
		Example: `  regent demo
  regent serve --store sqlite:/var/lib/regent.db --node node-a
  regent serve --config regent.yaml --check-config
  regent run nightly --timeout 30s -- ./nightly.sh`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(io.out)
	root.SetErr(io.errs)
	root.Flags().BoolP("version", "v", false, "the version of this binary")
	root.SetVersionTemplate("regent {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.UsageError(cmd, "%s", config.FlagText(cmd.Flags(), err))
	})
	root.CompletionOptions.DisableDefaultCmd = true

	root.AddGroup(cli.Groups()...)
	root.AddCommand(serveCmd(io), runCmd(io), demoCmd(io), slotsCmd(io), configCmd(io), etcdCmd(io),
		versionCmd(io))
	root.AddCommand(cli.Commands(&cli.Env{
		In: io.in, Out: io.out, Errs: io.errs, Environ: os.Environ(), Version: version(),
		Open: openExisting, OpenChecked: openChecked, Location: location,
	})...)
	cli.UseHelp(root)

	return root
}

// execute runs the command that args name.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	if err := cli.UnknownCommand(root, args); err != nil {
		return err
	}

	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := config.CheckBooleans(cmd.Flags(), args); err != nil {
			return fmt.Errorf("%s: %w", cmd.Name(), err)
		}
		return nil
	}

	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func versionCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "the version of this binary",
		Long:  "Prints the version that this binary was built as.",
		Example: `  regent version
  regent version -o json`,
		GroupID: cli.GroupSetUp,
		Args:    noArguments,
	}
	printer := formatted(cmd, io)
	cmd.RunE = func(*cobra.Command, []string) error {
		if printer.Format != output.Table {
			return printer.Data(map[string]string{"version": version()})
		}
		_, err := fmt.Fprintln(io.out, "regent", version())
		return err
	}

	return cmd
}

// formatted adds -o to a command, and returns the printer of its output.
func formatted(cmd *cobra.Command, io streams) *output.Printer {
	p := &output.Printer{Out: io.out, Format: output.Table}
	cmd.Flags().VarP(&p.Format, "output", "o", "the `format`: table, json or yaml")
	names := cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", names)
	return p
}

func demoCmd(io streams) *cobra.Command {
	opts := demo.Options{In: io.in, Out: output.Beneath(io.out), Open: openForDemo}
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "a real cluster on this machine, its page, and faults at the press of a key or a button",
		Long: `Starts three nodes and two workers as processes, on a new SQLite file or on the store that is named, and
prints the address of their page. A tour kills the leader, hands over, freezes the leader and hangs the
store, and prints how long each takeover took. Any key ends the tour: then each fault has its key, and its
button on the page. With --store the leader can also be cut off from the store. The buttons are served by
the demo alone, on loopback: a node has none.

In a store that is named, the demo uses a new prefix (Redis, etcd) or a new table (PostgreSQL), and joins
no election of others. Without a terminal it prints the tour and ends. Ctrl-C ends every process, and
removes every file and register.

Exit codes: 0; 1 something did not happen within a minute; 64 the command line makes no sense; 69 the store
does not answer; 78 the store refuses the demo, or the demo cannot use it.`,
		Example: `  regent demo
  regent demo --for 30s
  regent demo --store redis://127.0.0.1:6379`,
		GroupID: cli.GroupRun,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Terminal = output.Terminal(io.out)
			opts.Colour = output.Colours(io.out, os.Environ())
			if opts.For < 0 {
				return cli.UsageError(cmd, "--for %v: it must not be negative", opts.For)
			}
			return demo.Run(cmd.Context(), opts)
		},
	}
	cmd.Flags().DurationVar(&opts.For, "for", 0, "end after this time; without it the demo goes on after the tour")
	cmd.Flags().StringVar(&opts.Store, "store", "",
		"the store, of one server: redis://host:port, postgres://host:port/db, etcd://host:port, nats://host:port")
	return cmd
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.UsageError(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}
