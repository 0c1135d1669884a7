package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

// steerOptions are the flags of a verb.
type steerOptions struct {
	verb    cluster.Verb
	to      string
	epoch   uint64
	wait    bool
	yes     bool
	timeout time.Duration
}

// steerExits are the exit codes of a verb.
const steerExits = `

Exit codes: 0 done; 1 refused, with the reason, or another member leads than --to names; 64 the
command line makes no sense; 69 neither a node nor the store answers, and nothing was sent; 75 not
done within --timeout: it says what is waited for.`

func handoffCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handoff [ELECTION] --to MEMBER [flags]",
		Short: "hand an election over to a member",
		Long: `Makes the leader stop its duties and release the election for a member, which takes over after one
notification and one write. It is refused if that member is not a healthy candidate, or if another
term has begun since the epoch that was shown.` + steerExits,
		Example: `  regent handoff --to node-b
  regent handoff nightly --to node-b --wait --yes`,
	}
	opts := steerOptions{verb: cluster.HandOff}
	cmd.Flags().StringVar(&opts.to, "to", "", "the `member` that is to lead")
	t := addSteering(env, cmd, &opts)
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "end when that member leads, not when the leader has released")
	_ = cmd.RegisterFlagCompletionFunc("to", t.complete(memberNames, 0))

	return cmd
}

func stepDownCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step-down [ELECTION] [flags]",
		Short: "make the leader release an election",
		Long: `Makes the leader stop its duties and release the election. Another candidate takes over; the former
leader campaigns again after the others had their chance. While the election is paused nobody takes
over, and --wait is refused.` + steerExits,
		Example: `  regent step-down
  regent step-down nightly --wait --yes`,
	}
	opts := steerOptions{verb: cluster.StepDown}
	addSteering(env, cmd, &opts)
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "end when somebody leads again, not when the leader has released")

	return cmd
}

func pauseCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause [ELECTION] [flags]",
		Short: "keep everybody from claiming an election",
		Long: `Keeps all candidates from claiming an election until it is resumed. A leader goes on; if it dies,
nobody takes over.` + steerExits,
		Example: `  regent pause
  regent pause nightly --yes`,
	}
	addSteering(env, cmd, &steerOptions{verb: cluster.Pause})

	return cmd
}

func resumeCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [ELECTION] [flags]",
		Short: "end a pause",
		Long:  `Lets candidates claim an election again after a pause.` + steerExits,
		Example: `  regent resume
  regent resume nightly --wait`,
	}
	opts := steerOptions{verb: cluster.Resume, yes: true}
	addSteering(env, cmd, &opts)
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "end when somebody leads")

	return cmd
}

// addSteering adds what all verbs have in common.
func addSteering(env *Env, cmd *cobra.Command, opts *steerOptions) *target {
	cmd.GroupID = GroupSteer
	cmd.Args = atMostOne
	t := newTarget(env, cmd, electionNames, 1)
	flags := cmd.Flags()
	flags.DurationVar(&opts.timeout, "timeout", 30*time.Second, "how long it may take, as a `duration`")
	flags.Uint64Var(&opts.epoch, "epoch", 0, "the epoch that you have seen, as a `number`; 0 for the current one")
	if opts.verb != cluster.Resume {
		flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask: for scripts")
	}

	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		switch {
		case opts.verb == cluster.HandOff && opts.to == "":
			return UsageError(cmd, "handoff needs a successor: --to MEMBER; step-down releases without one")
		case opts.timeout <= 0:
			return UsageError(cmd, "--timeout %v: must be above 0", opts.timeout)
		}

		election, err := s.election(ctx, args)
		if err != nil {
			return err
		}
		return s.steer(ctx, election, *opts)
	})

	return t
}
