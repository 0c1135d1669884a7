package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
)

// configCmd is 'regent config check|explain|example'.
func configCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check, explain or begin a configuration",
		Long: `A configuration has the same keys everywhere: as flags, as variables and as lines of a YAML file.
'regent config check' says what is wrong with one, 'regent config explain' where each value comes
from, and 'regent config example' prints a file to begin with.`,
		Example: `  regent config check --config regent.yaml
  regent config explain --config regent.yaml
  regent config example > regent.yaml`,
		GroupID:     cli.GroupSetUp,
		Annotations: map[string]string{cli.AllKeys: "yes"},
	}
	cmd.AddCommand(configCheckCmd(io), configExplainCmd(io), configExampleCmd(io))

	return cmd
}

func configCheckCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [flags]",
		Short: "check the configuration and the store",
		Long: `Checks the configuration as 'regent serve' would use it, with the same flags, variables and file,
and asks the store whether it can work. It starts and creates nothing.

Exit codes: 0 it can be used, perhaps with warnings; 64 the command line makes no sense; 78
something must be changed first.`,
		Example: `  regent config check --config regent.yaml
  REGENT_TOKEN=… regent config check --store redis://db:6379 --listen :7468`,
		Args: noArguments,
	}
	printer := formatted(cmd, io)
	source := config.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := checkedSettings(cmd.Context(), source)
		switch {
		case err != nil:
			return err
		case printer.Format != output.Table:
			return printer.Data(usable{
				settings.Election, settings.Profile, location(settings.Store), len(settings.Polls),
				len(settings.Duties), append([]string{}, settings.Warnings...),
			})
		}

		for _, w := range settings.Warnings {
			fmt.Fprintln(io.errs, "warning:", w)
		}
		_, err = fmt.Fprintf(io.out,
			"configuration can be used: election %s, profile %s, store %s, %d polls, %d duties\n",
			settings.Election, settings.Profile, location(settings.Store), len(settings.Polls), len(settings.Duties))

		return err
	}

	return cmd
}

// usable is what 'regent config check' prints of a configuration that can be used.
type usable struct {
	Election string   `json:"election"`
	Profile  string   `json:"profile"`
	Store    string   `json:"store"` // without secrets
	Polls    int      `json:"polls"`
	Duties   int      `json:"duties"`
	Warnings []string `json:"warnings"`
}

// checkedSettings returns the settings as 'regent serve' would use them, once the store has been asked.
func checkedSettings(ctx context.Context, source *config.Source) (*config.Settings, error) {
	settings, err := source.Load(os.Environ(), config.ReadFile)
	if err != nil {
		return nil, err
	}

	storeUnshared(settings)
	if err := settings.ChooseAdvertise(config.ThisMachine()); err != nil {
		return nil, err
	}

	return settings, probeStore(ctx, settings)
}

func configExplainCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [KEY] [flags]",
		Short: "print each value and where it comes from, or all about one key",
		Long: `Prints the configuration as 'regent serve' would use it: each key, its value, and whether it comes
from a flag, a variable, a line of the file or the profile. With KEY it prints what that key does,
its flag, variable and defaults. No secret is shown.

Exit codes: 0; 64 the command line makes no sense; 78 the configuration must be changed first.`,
		Example: `  regent config explain --config regent.yaml
  regent config explain leaseDuration
  regent config explain -o json`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return config.KeyNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	format := cmd.Flags().StringP("output", "o", "text", "the `format`: text, json or yaml")
	source := config.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.UsageError(cmd, "explain takes one key, got %q too", args[1])
		}

		settings, err := source.Load(os.Environ(), config.ReadFile)
		if err != nil {
			return err
		}

		storeUnshared(settings)
		if err := settings.ChooseAdvertise(config.ThisMachine()); err != nil {
			return err
		}
		if len(args) == 1 {
			return settings.ExplainKey(io.out, args[0])
		}

		return settings.Explain(io.out, *format)
	}

	return cmd
}

func configExampleCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "example [flags]",
		Short: "print a configuration file to begin with",
		Long: `Prints a YAML file that has every key with its description and its default. All but the profile are
comments.

Exit codes: 0; 64 the command line makes no sense.`,
		Example: `  regent config example > regent.yaml
  regent config example --profile fleet > regent.yaml`,
		Args: noArguments,
	}
	profile := cmd.Flags().String("profile", config.Profiles()[0],
		"the `profile` whose defaults are shown: cluster, lock or fleet")
	cmd.RunE = func(*cobra.Command, []string) error { return config.WriteExample(io.out, *profile) }

	return cmd
}
