package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
)

// maxShown is how many elections 'regent status' shows if none is named.
const maxShown = 20

// Report is what 'regent status' prints.
type Report struct {
	Asked     string             `json:"asked"` // the node or the store
	Problems  []string           `json:"problems"`
	Node      *cluster.Status    `json:"node,omitempty"`
	Total     int                `json:"total"` // elections in the store
	Elections []cluster.Election `json:"elections"`

	members map[string]cluster.Member
	checked int64 // when the members were checked, in milliseconds ago
	unread  error // why the node cannot read its store; nil if it can
	now     time.Time
}

func statusCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [ELECTION ...] [flags]",
		Short: "who leads, since when and why, and who would lead next",
		Long: `Prints each election with its leader, epoch, what is left of the lease, the reason of the last
change, and its candidates in the order of their rank with their health. Problems come first.

If the node cannot read its store, it prints what the node knows by itself.

Exit codes: 0 it was printed; 1 there is no such election; 69 neither a node nor the store answers, or
the node cannot read the store.`,
		Example: `  regent status
  regent status --watch
  regent status coordinator -o json
  regent status --store redis://db:6379`,
		GroupID: GroupSee,
	}
	t := newTarget(env, cmd, electionNames, 0)
	t.addTimeout(cmd)
	watch := cmd.Flags().BoolP("watch", "w", false, "print it again and again; Ctrl-C ends it")
	interval := cmd.Flags().Duration("interval", 2*time.Second, "with --watch: the `time` between two prints")

	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		if !*watch {
			r, err := s.report(ctx, args)
			if err != nil {
				return err
			}
			if err := s.printReport(r); err != nil || r.unread == nil {
				return err
			}
			return &ExitError{ExitUnreachable, errors.New("no elections are known: the node cannot read its " +
				"store: see that the store runs and answers; 'regent doctor --store …' checks it")}
		}
		return s.repeat(ctx, *interval, func() error {
			r, err := s.report(ctx, args)
			if err != nil {
				return err
			}
			return s.printReport(r)
		})
	})

	return cmd
}

// repeat runs a print again and again until ctx ends. On a terminal it redraws. A cluster that does not answer is shown
// as such, and asked again.
func (s *session) repeat(ctx context.Context, interval time.Duration, show func() error) error {
	if interval < 100*time.Millisecond {
		return UsageError(s.cmd, "--interval %v: must be at least 100ms", interval)
	}

	redraw := output.Terminal(s.Out) && s.format == output.Table
	real := s.Printer.Out
	for first := true; ; first = false {
		var b strings.Builder
		s.Printer.Out = &b
		err := show()
		s.Printer.Out = real

		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(&b, "%s %v\n", s.Paint("no answer:", output.Bad), err)
		}

		if redraw {
			s.Printf("\x1b[H\x1b[2J")
		} else if !first && s.format == output.Table {
			s.Printf("\n")
		}
		s.Printf("%s", b.String())

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// report asks the cluster for all that 'regent status' prints.
func (s *session) report(ctx context.Context, names []string) (*Report, error) {
	ctx, done := s.bounded(ctx)
	defer done()

	all, err := s.cluster.Elections(ctx)
	if err != nil {
		return s.ownReport(ctx, err)
	}

	r := &Report{
		Asked: s.cluster.Where(), Problems: []string{}, Total: all.Total, members: map[string]cluster.Member{},
		now: time.Now(),
	}
	if r.Elections, err = choose(all, names); err != nil {
		return nil, err
	}

	if status, err := s.cluster.Status(ctx); err == nil {
		r.Node = &status
		r.addNode(status)
	}
	if _, ok := s.cluster.(*cluster.Node); ok {
		if members, err := s.cluster.Members(ctx); err == nil {
			r.checked = members.CheckedAgoMs
			for _, m := range members.Members {
				r.members[m.ID] = m
			}
		}
	}

	r.addElections()
	for _, name := range all.Unreadable {
		r.Problems = append(r.Problems, fmt.Sprintf("register %q cannot be read", name))
	}

	return r, nil
}

// choose returns the named elections; all of them if none is named.
func choose(all cluster.Elections, names []string) ([]cluster.Election, error) {
	if len(names) == 0 {
		return all.Elections, nil
	}

	chosen := []cluster.Election{}
	for _, name := range names {
		i := slices.IndexFunc(all.Elections, func(e cluster.Election) bool { return e.Name == name })
		if i < 0 {
			return nil, unknownElection(all, name)
		}
		chosen = append(chosen, all.Elections[i])
	}

	return chosen, nil
}

// unknownElection returns the error for an election that is not in the store.
func unknownElection(all cluster.Elections, name string) error {
	var known []string
	for _, e := range all.Elections {
		known = append(known, e.Name)
	}
	return fmt.Errorf("election %q was never held%s", name, instead(name, known))
}

// addNode adds the problems that the node knows of.
func (r *Report) addNode(s cluster.Status) {
	r.Problems = append(r.Problems, failedChecks(s)...)

	for _, d := range s.Differs {
		r.Problems = append(r.Problems, "configuration differs: "+d.Text)
	}

	if c := s.Cluster; c != nil && c.Status != "healthy" {
		for _, reason := range c.Reasons {
			r.Problems = append(r.Problems, fmt.Sprintf("cluster %s: %s", c.Status, reason))
		}
	}
}

// failedChecks returns the checks of a node that fail, the worst first. That of the configuration is left out: it
// repeats one of the differences.
func failedChecks(s cluster.Status) []string {
	var failed []string
	first := []string{"store", "writes", "epoch", "member", "loop", "leader"}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Checks)), func(name string) bool {
		return name == "config" || slices.Contains(first, name)
	})
	for _, name := range append(first, rest...) {
		if text := s.Checks[name]; text != "" && text != "ok" {
			failed = append(failed, fmt.Sprintf("%s: %s: %s", s.Node, name, text))
		}
	}
	return failed
}

// addElections adds the problems of the elections that are shown.
func (r *Report) addElections() {
	for _, e := range r.Elections {
		if e.Paused {
			r.Problems = append(r.Problems, fmt.Sprintf(
				"election %s is PAUSED: nobody takes over until 'regent resume %[1]s'", e.Name))
		}
		if e.State != elections.Led && !e.Finished {
			text := fmt.Sprintf("NOBODY LEADS election %s: %s", e.Name, reasonOf(e))
			if none := noCandidates(e); none != "" {
				text += "; " + none
			}
			r.Problems = append(r.Problems, text)
		}
	}
}

// reasonOf returns how the last term ended.
func reasonOf(e cluster.Election) string {
	if e.Why == nil {
		return "the reason is not known"
	}
	return e.Why.Text
}

func (s *session) printReport(r *Report) error {
	if s.format != output.Table {
		return s.Data(r)
	}

	for _, p := range r.Problems {
		s.Printf("%s\n", s.Paint("! "+output.Printable(p), output.Bad))
	}

	shown := r.Elections
	if len(shown) > maxShown {
		shown = shown[:maxShown]
	}
	for i, e := range shown {
		if i > 0 || len(r.Problems) > 0 {
			s.Printf("\n")
		}
		s.printElection(r, e)
	}

	switch {
	case r.unread != nil:
		s.Printf("\n%s\n", output.Printable(knownTo(*r.Node)))
	case len(r.Elections) == 0:
		s.Printf("no election was ever held in this store\n")
	case len(r.Elections) > maxShown:
		s.Printf("\nand %d more: 'regent elections' lists all\n", len(r.Elections)-maxShown)
	}

	s.printChecked(r)
	return nil
}

// printChecked prints which members are gone, and how long ago the members were checked, if that was not just now.
func (s *session) printChecked(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(r.members)) {
		if m := r.members[id]; m.Status == health.Gone {
			s.Printf("%s is gone since %s: %s\n", output.Printable(id), output.Time(m.Since), output.Printable(m.Why))
		}
	}
	if text := checked(r.checked); text != "" {
		s.Printf("health and last seen are%s\n", strings.TrimPrefix(text, ","))
	}
}

// printElection prints one election: who leads, and its candidates.
func (s *session) printElection(r *Report, e cluster.Election) {
	leads := s.Paint("nobody leads", output.Bad)
	switch {
	case e.State == elections.Led:
		leads = s.Paint(e.Leader+" leads", output.Good)
	case e.Finished:
		leads = "finished"
	}
	if e.Paused {
		leads += ", " + s.Paint("paused", output.Bad)
	}

	s.Printf("%s: %s, epoch %d", s.Paint("Election "+e.Name, output.Strong), leads, e.Epoch)
	if e.State == elections.Led {
		s.Printf(", since %s, lease left %s of %s", output.Since(e.Since, r.now), leaseLeft(e),
			output.Milliseconds(e.LeaseDurationMs))
	}
	s.Printf("\n")
	if e.Next != "" && e.Next != "*" {
		s.Printf("handed over to: %s\n", output.Printable(e.Next))
	}
	s.Printf("last change: %s\n", output.Printable(reasonOf(e)))

	table := &output.Rows{Header: []string{"MEMBER", "ROLE", "RANK", "HEALTH", "LAST SEEN", "LATENCY", "REGION",
		"PRIORITY", "VERSION", "ADDRESS", "WHY"}}
	for _, c := range e.Candidates {
		table.Add(r.candidate(c)...)
	}
	if len(table.Rows) > 0 {
		s.Table(table)
	}
	if hidden := e.CandidateCount - len(e.Candidates); hidden > 0 {
		s.Printf("and %d more candidates\n", hidden)
	}
}

// leaseLeft returns what is left of the lease.
func leaseLeft(e cluster.Election) string {
	if e.LeaseRemainingMs == nil {
		return "unknown"
	}
	return output.Milliseconds(*e.LeaseRemainingMs)
}

// candidate returns the row of a candidate.
func (r *Report) candidate(c cluster.Candidate) []output.Cell {
	role, tone := "standby", output.Plain
	switch {
	case c.Leads:
		role, tone = "leader", output.Good
	case !c.Eligible:
		role = "observer"
	}

	rank := ""
	if c.Rank > 0 {
		rank = fmt.Sprint(c.Rank)
	}
	priority := ""
	if c.Priority != 0 {
		priority = fmt.Sprint(c.Priority)
	}

	m, known := r.members[c.ID]
	health := candidateHealth(c)
	why := c.Why
	seen, latency := "", ""
	if known {
		if c.Alive && c.Healthy || m.Status != "healthy" { // else the register is newer than the check
			health = healthCell(string(m.Status))
		}
		if m.Why != "" {
			why = strings.TrimPrefix(why+"; "+m.Why, "; ")
		}
		seen = lastSeen(m)
		latency = latencyOf(m)
	}

	return []output.Cell{
		output.C(c.ID), output.Toned(role, tone), output.C(rank), health, output.C(seen), output.C(latency),
		output.C(c.Region), output.C(priority), output.C(m.Version), output.C(c.Addr), output.C(why),
	}
}

// candidateHealth returns the health of a candidate as its register shows it.
func candidateHealth(c cluster.Candidate) output.Cell {
	switch {
	case !c.Alive:
		return healthCell("unreachable")
	case !c.Healthy:
		return healthCell("unhealthy")
	}
	return healthCell("healthy")
}

func healthCell(status string) output.Cell {
	switch status {
	case "healthy":
		return output.Toned(status, output.Good)
	case "degraded", "unknown":
		return output.Toned(status, output.Warning)
	}
	return output.Toned(status, output.Bad)
}

func lastSeen(m cluster.Member) string {
	if m.LastSeenMs < 0 {
		return ""
	}
	return output.Milliseconds(m.LastSeenMs) + " ago"
}

func latencyOf(m cluster.Member) string {
	if m.ProbeLatencyMs < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", m.ProbeLatencyMs)
}
