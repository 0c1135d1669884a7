package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// shells are those that completion is written for.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func completionCmd(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "a script that completes commands, flags and live names in a shell",
		Long: `Prints a script for bash, zsh or fish. It completes commands and flags, and asks the node (--addr,
REGENT_ADDR) for the names of elections, members, polls and nodes. If the node does not answer
within a second, no names are completed.

Exit codes: 0; 64 there is no script for that shell.`,
		Example: `  source <(regent completion bash)
  regent completion zsh > "${fpath[1]}/_regent"
  regent completion fish > ~/.config/fish/completions/regent.fish`,
		GroupID:           GroupSetUp,
		ValidArgsFunction: cobra.FixedCompletions(shells(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return UsageError(cmd, "completion needs a shell: %s", strings.Join(shells(), ", "))
			}

			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "zsh":
				return root.GenZshCompletion(env.Out)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			}

			hint := ""
			if best := nearest.Name(args[0], shells()); best != "" {
				hint = fmt.Sprintf(", did you mean %q?", best)
			}
			return UsageError(cmd, "there is no completion for %q: it must be %s%s", args[0],
				strings.Join(shells(), ", "), hint)
		},
	}
}
