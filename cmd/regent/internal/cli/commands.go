package cli

import (
	"github.com/spf13/cobra"
)

// Commands returns the commands that show and steer a cluster.
func Commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		statusCmd(env), watchCmd(env), whyCmd(env), membersCmd(env), historyCmd(env), electionsCmd(env), pollsCmd(env),
		eventsCmd(env), isLeaderCmd(env), handoffCmd(env), stepDownCmd(env), pauseCmd(env), resumeCmd(env),
		doctorCmd(env), completionCmd(env),
	}
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}

// atMostOne refuses more than one argument.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return UsageError(cmd, "%s takes one argument, got %q too", cmd.Name(), args[1])
	}
	return nil
}
