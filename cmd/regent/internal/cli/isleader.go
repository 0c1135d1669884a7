package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// Exit codes of 'regent is-leader'.
const (
	exitStandby = 1
	exitUnknown = 2
)

// Answer is what 'regent is-leader' prints.
type Answer struct {
	Node     string `json:"node"`
	Election string `json:"election"`
	Role     string `json:"role"` // leader, standby or unknown
	Epoch    uint64 `json:"epoch"`
	Why      string `json:"why,omitempty"` // it is unknown
}

func isLeaderCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "is-leader [NODE] [flags]",
		Short: "for scripts: exit code 0, 1 or 2 for leader, standby, unknown",
		Long: `Says whether a node leads, by its own deadline: the node that is asked. With --store, and for
another NODE, it says what the store shows, which may be late by a lease.

Exit codes: 0 it leads; 1 it does not; 2 that is not known, because neither a node nor the store
answers, because the node itself does not reach the store, or because there is no such member; 64 the
command line makes no sense.`,
		Example: `  regent is-leader && ./rotate-logs
  regent is-leader node-a --store redis://db:6379
  regent is-leader -o json`,
		GroupID: GroupSee,
		Args:    atMostOne,
	}
	t := newTarget(env, cmd, memberNames, 1)
	timeout := cmd.Flags().Duration("timeout", 5*time.Second, "how long an answer may take, as a `duration`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := t.open(cmd.Context())
		if err != nil {
			return unknownUnlessUsage(err)
		}
		defer s.cluster.Close()

		if _, ok := s.cluster.(*cluster.Store); ok && len(args) == 0 {
			return UsageError(cmd, "is-leader needs the name of a member with --store: regent is-leader NODE --store …")
		}

		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()

		return s.printAnswer(s.role(ctx, args))
	}

	return cmd
}

// unknownUnlessUsage returns an error with the exit code for an unknown role, unless the command line or the
// configuration is wrong.
func unknownUnlessUsage(err error) error {
	if exit, ok := err.(*ExitError); ok && exit.Code == ExitUnreachable {
		return &ExitError{exitUnknown, err}
	}
	return err
}

// role finds out whether a node leads.
func (s *session) role(ctx context.Context, args []string) Answer {
	asked, isNode := s.cluster.(*cluster.Node)
	election := s.settings.Election
	if isNode {
		status, err := asked.LocalStatus(ctx)
		other := s.settings.Given("election") && election != status.Election
		switch {
		case err != nil:
			return Answer{Role: "unknown", Why: err.Error()}
		case !other && (len(args) == 0 || args[0] == status.Node):
			return ownRole(status)
		case !other:
			election = status.Election
		}
		if len(args) == 0 {
			args = []string{status.Node}
		}
	}

	a := Answer{Node: args[0], Election: election, Role: "unknown"}
	e, err := s.cluster.Election(ctx, election)
	switch {
	case err != nil:
		a.Why = err.Error()
	case e.State == elections.Led && e.Leader == a.Node:
		a.Role, a.Epoch = "leader", e.Epoch
	default:
		a.Epoch = e.Epoch
		if a.Why = s.missing(ctx, e, a.Node); a.Why == "" {
			a.Role = "standby"
		}
	}

	return a
}

// missing returns why a node that does not lead is no member, as far as is known; empty if it is one, or led before.
func (s *session) missing(ctx context.Context, e cluster.Election, node string) string {
	known := []string{e.Holder}
	if e.Why != nil {
		known = append(known, e.Why.Previous)
	}
	for _, c := range e.Candidates {
		known = append(known, c.ID)
	}
	if slices.Contains(known, node) {
		return ""
	}

	members, err := s.cluster.Members(ctx)
	if err != nil {
		return err.Error()
	}

	var names []string
	for _, m := range members.Members {
		names = append(names, m.ID)
	}
	if slices.Contains(names, node) {
		return ""
	}
	return fmt.Sprintf("there is no member %q%s", node, instead(node, names))
}

// ownRole returns the role of a node as it says itself.
func ownRole(s cluster.Status) Answer {
	a := Answer{Node: s.Node, Election: s.Election, Epoch: s.Epoch}
	switch s.Role {
	case node.Leader:
		a.Role = "leader"
	case node.Standby, node.Observer:
		a.Role = "standby"
	default:
		a.Role = "unknown"
		a.Why = fmt.Sprintf("%s is %s: %s", s.Node, s.Role, s.Checks["store"])
	}

	return a
}

// printAnswer prints the role, and returns its exit code.
func (s *session) printAnswer(a Answer) error {
	if s.format != output.Table {
		if err := s.Data(a); err != nil {
			return err
		}
	} else {
		s.Printf("%s\n", a.Role)
	}

	switch a.Role {
	case "leader":
		return nil
	case "standby":
		return &ExitError{Code: exitStandby}
	}
	return &ExitError{exitUnknown, fmt.Errorf("whether it leads is not known: %s", a.Why)}
}
