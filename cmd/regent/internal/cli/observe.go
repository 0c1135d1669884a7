package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// instead returns the end of an error about a name that is not there.
func instead(name string, known []string) string {
	if best := nearest.Name(name, known); best != "" {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	if len(known) > 0 && len(known) <= 10 {
		return "; there are " + strings.Join(known, ", ")
	}
	return ""
}

func electionsCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "elections [flags]",
		Short: "all elections of the store, one a line",
		Long: `Lists all elections of the store with leader, epoch, age of the term, what is left of the lease, how
many candidates can lead, and the reason of the last change.

Exit codes: 0 it was printed; 69 neither a node nor the store answers.`,
		Example: `  regent elections
  regent elections -o json
  regent elections --store sqlite:/var/lib/regent.db`,
		GroupID: GroupSee,
		Args:    noArguments,
	}
	t := newTarget(env, cmd, noNames, 0)
	t.addTimeout(cmd)
	cmd.RunE = t.run(func(ctx context.Context, s *session, _ []string) error {
		ctx, done := s.bounded(ctx)
		defer done()

		all, err := s.cluster.Elections(ctx)
		switch {
		case err != nil:
			return err
		case s.format != output.Table:
			return s.Data(all)
		}

		now := time.Now()
		table := &output.Rows{Header: []string{"ELECTION", "LEADER", "EPOCH", "SINCE", "LEASE LEFT", "CAN LEAD",
			"STATE", "LAST CHANGE"}}
		for _, e := range all.Elections {
			table.Add(electionRow(e, now)...)
		}
		if len(table.Rows) == 0 {
			s.Printf("no election was ever held in this store\n")
			return nil
		}

		s.Table(table)
		return nil
	})

	return cmd
}

func electionRow(e cluster.Election, now time.Time) []output.Cell {
	state, tone := string(e.State), output.Good
	switch {
	case e.Finished:
		state, tone = "finished", output.Plain
	case e.State != elections.Led:
		tone = output.Bad
	}
	if e.Paused {
		state, tone = state+", paused", output.Bad
	}

	since, left := "", ""
	if e.State == elections.Led {
		since = output.Duration(max(0, now.Sub(e.Since))) + " ago"
		left = leaseLeft(e)
	}

	return []output.Cell{
		output.C(e.Name), output.Toned(e.Leader, tone), output.C(fmt.Sprint(e.Epoch)), output.C(since), output.C(left),
		output.C(fmt.Sprintf("%d of %d", e.EligibleCount, e.CandidateCount)), output.Toned(state, tone),
		output.C(reasonOf(e)),
	}
}

func membersCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members [flags]",
		Short: "every member with its health and the reason",
		Long: `Lists the members as the leader sees them: role, health and its reason, age of the last heartbeat,
latency, region, version and address. With --store it shows what the registers say, after two
seconds.

Exit codes: 0 it was printed; 69 neither a node nor the store answers.`,
		Example: `  regent members
  regent members -o yaml
  regent members --addr node-b:7468`,
		GroupID: GroupSee,
		Args:    noArguments,
	}
	t := newTarget(env, cmd, noNames, 0)
	t.addTimeout(cmd)
	cmd.RunE = t.run(func(ctx context.Context, s *session, _ []string) error {
		ctx, done := s.bounded(ctx)
		defer done()

		all, err := s.cluster.Members(ctx)
		switch {
		case err != nil:
			return err
		case s.format != output.Table:
			return s.Data(all)
		}

		s.printMembers(all)
		return nil
	})

	return cmd
}

// freshCheck is how old a check of the members may be without a word: the leader checks them every 30 s, and at once
// when one joins or leaves.
const freshCheck = 5 * time.Second

// checked returns how long ago the members were checked, as the end of a line: their heartbeats were last seen then.
func checked(agoMs int64) string {
	if ago := time.Duration(agoMs) * time.Millisecond; ago >= freshCheck {
		return ", as of the last check " + output.Duration(ago) + " ago"
	}
	return ""
}

func (s *session) printMembers(all cluster.Members) {
	s.Printf("cluster %s", s.Paint(string(all.Status), healthCell(string(all.Status)).Tone))
	if all.Leader != "" {
		s.Printf(", %s leads, epoch %d", output.Printable(all.Leader), all.Epoch)
	}
	if n := all.Counts.Gone; n > 0 {
		s.Printf(", %d of %d members gone", n, all.Counts.Members)
	}
	s.Printf("%s\n", checked(all.CheckedAgoMs))
	for _, reason := range all.Reasons {
		s.Printf("! %s\n", output.Printable(reason))
	}

	table := &output.Rows{Header: []string{"MEMBER", "ROLE", "HEALTH", "SINCE", "LAST SEEN", "LATENCY", "ELIGIBLE",
		"REGION", "VERSION", "ADDRESS", "WHY"}}
	for _, m := range all.Members {
		eligible := "yes"
		if !m.Eligible {
			eligible = "no"
		}
		role := m.Role
		if m.Status == health.Gone {
			role = "" // that of its last answer
		}
		table.Add(output.C(m.ID), output.C(role), healthCell(string(m.Status)), output.C(output.Time(m.Since)),
			output.C(lastSeen(m)), output.C(latencyOf(m)), output.C(eligible), output.C(m.Region), output.C(m.Version),
			output.C(m.Addr), output.C(m.Why))
	}
	if len(table.Rows) == 0 {
		s.Printf("there are no members\n")
		return
	}

	s.Table(table)
}
