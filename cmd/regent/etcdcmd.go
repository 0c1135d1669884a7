package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
)

// etcdCmd is 'regent etcd members|add|remove|snapshot|restore'.
func etcdCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "members, snapshots and restores of a store that runs inside the nodes",
		Long: `A store etcd+embedded: is a cluster of etcd members, one inside each 'regent serve'. These commands
change which members it has, and save and restore what it holds. Each needs --store or --config, with
the address that the nodes have. They are in the build with an etcd member: 'make build-embedded'.`,
		Example: `  regent etcd members --config regent.yaml
  regent etcd snapshot regent.snapshot --config regent.yaml`,
		GroupID: cli.GroupSetUp,
	}
	cmd.AddCommand(etcdMembersCmd(io), etcdAddCmd(io), etcdRemoveCmd(io), etcdSnapshotCmd(io), etcdRestoreCmd(io))
	return cmd
}

// etcdCall is one run of a command below 'regent etcd'.
type etcdCall struct {
	*output.Printer
	settings *config.Settings
	argument string
	raise    uint64 // of restore
}

// etcdRun adds the flags that the commands share, and lets cmd run do. A command with a name for its argument takes
// one.
func etcdRun(io streams, cmd *cobra.Command, argument string,
	do func(context.Context, *etcdCall) error) *cobra.Command {
	format := output.Table
	cmd.Flags().VarP(&format, "output", "o", "the `format`: table, json or yaml")
	timeout := cmd.Flags().Duration("timeout", time.Minute, "how long it may take, as a `duration`")
	source := config.Flags(cmd.Flags(), "config", "store", "node")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		call := &etcdCall{Printer: &output.Printer{
			Out: io.out, Format: format, Colour: output.Colours(io.out, os.Environ()),
		}}
		switch {
		case argument == "" && len(args) > 0:
			return cli.UsageError(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
		case argument != "" && len(args) != 1:
			return cli.UsageError(cmd, "%s takes one argument, %s", cmd.Name(), argument)
		case *timeout <= 0:
			return cli.UsageError(cmd, "--timeout %v: must be above 0", *timeout)
		case argument != "":
			call.argument = args[0]
		}

		settings, err := source.LoadClient(os.Environ(), config.ReadFile)
		if err != nil {
			return err
		}
		call.settings = settings
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return do(ctx, call)
	}
	return cmd
}

func etcdMembersCmd(io streams) *cobra.Command {
	return etcdRun(io, &cobra.Command{
		Use:   "members [flags]",
		Short: "the members of the store, and which of them answer",
		Long: `Lists the members as one of them knows them, and asks each for its state. The leader is that of the
etcd cluster: who leads an election of Regent is another matter ('regent status'). One member that
answers is enough; "no leader" says that it does not reach a majority.

Exit codes: 0 it was printed; 1 it was not done; 64 the command line makes no sense; 78 the configuration must be
changed first, or this build has no etcd member.`,
		Example: `  regent etcd members --config regent.yaml
  regent etcd members --config regent.yaml -o json`,
	}, "", etcdMembers)
}

func etcdAddCmd(io streams) *cobra.Command {
	return etcdRun(io, &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "let a member join the store",
		Long: `Adds a member that peers of the store's address names. Then start its node: with an empty directory it
joins, and copies what the others hold. Add one member at a time, and remove a dead one first.

Exit codes: 0 it was added; 1 it was not done; 64 the command line makes no sense; 78 the configuration must be
changed first, or this build has no etcd member.`,
		Example: `  regent etcd add node-c --config regent.yaml`,
	}, "NAME", etcdAdd)
}

func etcdRemoveCmd(io streams) *cobra.Command {
	return etcdRun(io, &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "remove a member from the store, for good",
		Long: `Removes a member, by its name or its ID. If its node runs, the node ends with exit code 78. Its directory
is of no use any more. A change that would leave no majority is refused.

Exit codes: 0 it was removed; 1 it was not done; 64 the command line makes no sense; 78 the configuration must be
changed first, or this build has no etcd member.`,
		Example: `  regent etcd remove node-c --config regent.yaml`,
	}, "NAME", etcdRemove)
}

func etcdSnapshotCmd(io streams) *cobra.Command {
	return etcdRun(io, &cobra.Command{
		Use:   "snapshot FILE [flags]",
		Short: "save all that the store holds in a file",
		Long: `Saves the whole store, as one member that answers has it, in a new file. The file is checked when it is
restored. It holds what nodes keep in the store, checkpoints of duties included.

Exit codes: 0 it was saved; 1 it was not done; 64 the command line makes no sense; 78 the configuration must be
changed first, or this build has no etcd member.`,
		Example: `  regent etcd snapshot /backup/regent.snapshot --config regent.yaml`,
	}, "FILE", etcdSnapshot)
}

// How many epochs a restore leaves out.
const (
	defaultRaise = 1000
	maxRaise     = 1_000_000 // more is a slip, and cannot be taken back
)

func etcdRestoreCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE [flags]",
		Short: "make the directory of this host's member what a snapshot holds",
		Long: `For a store that has lost a majority of its members for good. Stop all nodes, move their directories
away, and run this on every host of peers with the same file, the same --raise-epochs and the node's
name; then start them. They are a new cluster, which no former member can join, nor one that was
restored from another file or with another --raise-epochs.

A restore is a rollback: what was written after the snapshot is lost. Epochs that were given out since
must not be given out again, because fences refuse them: the next term of every election is beyond the
highest epoch in the snapshot by more than --raise-epochs. Give a higher number if leaders may have
changed more often since. If leaders have changed more often than that, fences hold all the same,
and nodes that remember a higher epoch claim beyond it.

Exit codes: 0 it was restored; 1 it was not done; 64 the command line makes no sense; 78 the configuration must be
changed first, or this build has no etcd member.`,
		Example: `  regent etcd restore /backup/regent.snapshot --node node-a --config regent.yaml`,
	}
	raise := cmd.Flags().Uint64("raise-epochs", defaultRaise,
		"how many epochs may have been given out since the snapshot: a `number`, the same on all hosts")

	return etcdRun(io, cmd, "FILE", func(ctx context.Context, c *etcdCall) error {
		if *raise > maxRaise {
			return cli.UsageError(cmd, "--raise-epochs %d: must be at most %d", *raise, maxRaise)
		}
		c.raise = *raise
		return etcdRestore(ctx, c)
	})
}
