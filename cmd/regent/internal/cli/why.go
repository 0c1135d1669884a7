package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/driver"
)

// peerTimeout is how long another node may take to say how it is.
const peerTimeout = 2 * time.Second

// Explanation is what 'regent why' prints.
type Explanation struct {
	Node     string   `json:"node"`
	Election string   `json:"election"`
	Leads    bool     `json:"leads"`
	Leader   string   `json:"leader"`
	Epoch    uint64   `json:"epoch"`
	Text     string   `json:"text"`    // in a sentence
	Because  []string `json:"because"` // the most important first
	But      []string `json:"but"`     // what is wrong with the node, or with its election, all the same
}

func whyCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why [NODE] [flags]",
		Short: "why a node leads, or does not, in words",
		Long: `Says why NODE leads its election, or what keeps it from leading. Without NODE it is the node that is
asked and, with --store, the leader, or why nobody leads.

Exit codes: 0 it was printed; 1 there is no such member or election; 69 neither a node nor the store
answers.`,
		Example: `  regent why
  regent why node-b
  regent why --store redis://db:6379
  regent why node-b --election nightly --store redis://db:6379`,
		GroupID: GroupSee,
		Args:    atMostOne,
	}
	t := newTarget(env, cmd, memberNames, 1)
	t.addTimeout(cmd)
	cmd.RunE = t.run(func(ctx context.Context, s *session, args []string) error {
		x, err := s.explainNode(ctx, args)
		switch {
		case err != nil:
			return err
		case s.format != output.Table:
			return s.Data(x)
		}

		s.Printf("%s\n", output.Printable(x.Text))
		for _, reason := range x.Because {
			s.Printf("  because %s\n", output.Printable(reason))
		}
		for _, reason := range x.But {
			s.Printf("  but %s\n", output.Printable(reason))
		}
		return nil
	})

	return cmd
}

// subject is all that is known about the node that 'regent why' is about.
type subject struct {
	node     string
	election cluster.Election
	rank     string
	own      *cluster.Candidate // as a candidate; nil if it is none
	member   *cluster.Member    // as the leader sees it; nil if not known
	status   *cluster.Status    // as it sees itself; nil if not known
	silent   string             // why it does not answer
	duties   []regent.DutyState
	led      *driver.Past // its last term, if it is no member any more
	now      time.Time
}

// explainNode finds out why a node leads, or does not.
func (s *session) explainNode(ctx context.Context, args []string) (*Explanation, error) {
	ctx, done := s.bounded(ctx)
	defer done()

	x := &subject{now: time.Now()}
	asked, isNode := s.cluster.(*cluster.Node)
	name := s.settings.Election
	if isNode {
		status, err := asked.LocalStatus(ctx)
		if err != nil {
			return nil, err
		}
		x.node, x.status = status.Node, &status
		if !s.settings.Given("election") {
			name = status.Election
		}
	}

	switch {
	case len(args) > 0 && args[0] != x.node:
		x.node, x.status = args[0], nil
	case x.node == "":
		leader, vacant, err := s.leaderOf(ctx, name)
		if err != nil || vacant != nil {
			return vacant, err
		}
		x.node = leader
	}

	err := s.inspect(ctx, x, name)
	switch {
	case unread(err) && x.status != nil && x.status.Election == name:
		return x.explainOwn(err), nil
	case err != nil:
		return nil, err
	}
	return x.explain(), nil
}

// inspect asks for the election, the members, and the node itself.
func (s *session) inspect(ctx context.Context, x *subject, election string) error {
	all, err := s.cluster.Elections(ctx)
	if err != nil {
		return err
	}
	chosen, err := choose(all, []string{election})
	if err != nil {
		return err
	}
	x.election, x.rank = chosen[0], string(all.Rank)

	for i, c := range x.election.Candidates {
		if c.ID == x.node {
			x.own = &x.election.Candidates[i]
		}
	}

	var known []string
	if members, err := s.cluster.Members(ctx); err == nil {
		for _, m := range members.Members {
			known = append(known, m.ID)
			if m.ID == x.node {
				x.member = &m
			}
		}
	}
	if x.own == nil && x.member == nil && x.status == nil && x.election.Holder != x.node {
		x.led = s.lastTerm(ctx, election, x.node)
	}
	if x.own == nil && x.member == nil && x.status == nil && x.election.Holder != x.node && !x.ledBefore() {
		return fmt.Errorf("there is no member %q%s", x.node, instead(x.node, known))
	}

	s.askItself(ctx, x)
	return nil
}

// lastTerm returns the last term of a node that has ended; nil if there was none, or that is not known.
func (s *session) lastTerm(ctx context.Context, election, node string) *driver.Past {
	history, err := s.cluster.History(ctx, election)
	if err != nil {
		return nil
	}

	for _, p := range slices.Backward(history.Terms) {
		if p.Holder == node {
			return &p
		}
	}
	return nil
}

// askItself asks the node itself how it is, if its address is known.
func (s *session) askItself(ctx context.Context, x *subject) {
	asked, ok := s.cluster.(*cluster.Node)
	if !ok {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()

	node := asked
	if x.status == nil {
		addr := ""
		switch {
		case x.member != nil:
			addr = x.member.Addr
		case x.own != nil:
			addr = x.own.Addr
		}
		if addr == "" {
			return
		}

		node = asked.At(addr)
		status, err := node.LocalStatus(ctx)
		switch {
		case err != nil:
			x.silent = fmt.Sprintf("it does not answer at %s: it may have died, hung, or be cut off", addr)
			return
		case status.Node != x.node:
			x.silent = fmt.Sprintf("the node %s answers at its address %s", status.Node, addr)
			return
		}
		x.status = &status
	}

	x.duties, _ = node.Duties(ctx)
}

// explain returns the explanation.
func (x *subject) explain() *Explanation {
	e := x.election
	named := e.State == elections.Led && e.Leader == x.node
	r := &Explanation{
		Node: x.node, Election: e.Name, Leads: named && !x.displaced(), Leader: e.Leader, Epoch: e.Epoch,
		Because: []string{}, But: []string{},
	}
	if m := x.member; m != nil && m.Status == health.Degraded && (x.own == nil || x.own.Healthy) {
		r.But = append(r.But, "it is degraded: "+m.Why)
	}

	switch {
	case named && !r.Leads:
		r.Text = fmt.Sprintf("this process of %s does not lead election %s: another process with its ID does, epoch "+
			"%d, since %s.", x.node, e.Name, e.Epoch, output.Since(e.Since, x.now))
	case r.Leads:
		r.Text = fmt.Sprintf("%s leads election %s: epoch %d, since %s, lease left %s.", x.node, e.Name, e.Epoch,
			output.Since(e.Since, x.now), leaseLeft(e))
		r.Because = append(r.Because, reasonOf(e))
		if e.Paused {
			r.But = append(r.But, fmt.Sprintf(
				"the election is paused: nobody takes over from it until 'regent resume %s'", e.Name))
		}
		return r
	case e.State == elections.Led:
		r.Text = fmt.Sprintf("%s does not lead election %s: %s leads, epoch %d, since %s.", x.node, e.Name, e.Leader,
			e.Epoch, output.Since(e.Since, x.now))
	default:
		r.Text = fmt.Sprintf("%s does not lead election %s: nobody leads; the last epoch was %d: %s.", x.node, e.Name,
			e.Epoch, reasonOf(e))
	}

	r.Because = append(x.obstacles(), x.succession()...)
	if len(r.Because) == 0 {
		r.Because = append(r.Because, "nothing keeps it from leading: it takes over as soon as it claims the election")
	}

	return r
}

// displaced reports whether another process has the ID of the node that was asked.
func (x *subject) displaced() bool {
	return x.status != nil && x.status.Checks["member"] != "" && x.status.Checks["member"] != "ok"
}

// obstacles returns what keeps the node itself from leading.
func (x *subject) obstacles() []string {
	var found []string
	add := func(when bool, format string, args ...any) {
		if when {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}

	gone := x.own == nil && x.member != nil && x.member.Status == health.Gone // then its silence is no news
	add(x.silent != "" && !gone, "%s", x.silent)
	if s := x.status; s != nil {
		checks := s.Checks
		add(checks["store"] != "" && checks["store"] != "ok", "it cannot reach the store %s: %s", s.Store.Address,
			checks["store"])
		add(checks["writes"] != "", "it cannot write to the store: %s", checks["writes"])
		add(x.displaced(), "%s", checks["member"])
		add(checks["loop"] != "" && checks["loop"] != "ok", "its own loop is %s", checks["loop"])
	}

	add(x.election.Paused, "the election is paused: nobody claims it until 'regent resume %s'", x.election.Name)
	if c := x.own; c != nil {
		add(!c.Alive, "its heartbeat has expired")
		add(!c.Eligible, "it is not eligible: eligible is false in its configuration")
		add(!c.Healthy, "it is unhealthy%s", x.whyUnhealthy())
	} else {
		if gone {
			add(true, "it is gone since %s: %s; start it again, unless it was to stop", output.Time(x.member.Since),
				x.member.Why)
		}
		add(!gone && x.member == nil && x.ledBefore(), "it is no member any more: %s", x.departure())
		add(!gone && x.silent == "" && !x.ledBefore() && (x.status == nil || x.status.Election != x.election.Name),
			"it does not campaign for this election%s", x.campaigns())
	}

	return found
}

// campaigns returns what the node campaigns for instead, as the end of a sentence.
func (x *subject) campaigns() string {
	switch {
	case x.status != nil && x.status.Election != "":
		return ", but for " + x.status.Election
	case x.member != nil && len(x.member.Elections) > 0:
		return ", but for " + listed(x.member.Elections)
	}
	return ""
}

// ledBefore reports whether the node led a term that has ended, as far as is known.
func (x *subject) ledBefore() bool {
	return x.led != nil || x.election.Why != nil && x.election.Why.Previous == x.node
}

// departure returns how the last term of a node ended that is no member any more.
func (x *subject) departure() string {
	if x.led == nil {
		return reasonOf(x.election)
	}
	ended := ""
	if !x.led.Ended.IsZero() {
		ended = " at " + output.Time(x.led.Ended)
	}
	return fmt.Sprintf("its last term, epoch %d, ended%s: %s", x.led.Epoch, ended,
		elections.Sentence(x.led.Holder, regent.Reason(x.led.Reason)))
}

// whyUnhealthy returns that its health check fails, which duty fails, or what the leader says about the node.
func (x *subject) whyUnhealthy() string {
	if s := x.status; s != nil && s.Checks["healthCheck"] != "" && s.Checks["healthCheck"] != "ok" {
		return ": " + s.Checks["healthCheck"]
	}

	i := slices.IndexFunc(x.duties, func(d regent.DutyState) bool { return d.InARow > 0 })
	switch {
	case i >= 0:
		d := x.duties[i]
		return fmt.Sprintf(": duty %s has failed %d times in a row: %s", d.Name, d.InARow, d.LastError)
	case x.member != nil && x.member.Why != "":
		return ": " + x.member.Why
	}
	return ""
}

// succession returns what the election says about who leads, or who would.
func (x *subject) succession() []string {
	e := x.election
	able := x.own != nil && x.own.CanLead && x.silent == ""
	switch {
	case !able || e.Paused:
		return nil
	case e.State == elections.Expired:
		return []string{fmt.Sprintf("the lease of %s has expired: candidates wait for the takeover delay, and then "+
			"the best of them claims the election", e.Holder)}
	case e.State == elections.Vacant && e.Next != "" && e.Next != "*" && e.Next != x.node:
		return []string{fmt.Sprintf("%s is asked to take over, and the others hold back for a heartbeat", e.Next)}
	case e.State != elections.Led:
		return x.better()
	}

	leader := slices.IndexFunc(e.Candidates, func(c cluster.Candidate) bool { return c.Leads })
	even := leader < 0 || e.Candidates[leader].Rank == 0 || e.Candidates[leader].Rank == x.own.Rank
	switch {
	case even && e.Why != nil && e.Why.Reason == string(regent.ReasonHandoff):
		return []string{fmt.Sprintf("%s; %s leads since, and a leader keeps its election until its term ends",
			reasonOf(e), e.Leader)}
	case even:
		return []string{fmt.Sprintf("%s won the race for epoch %d: no candidate ranks before another (rank %s), and a "+
			"leader keeps its election until its term ends", e.Leader, e.Epoch, x.rank)}
	case e.Candidates[leader].Rank < x.own.Rank:
		return []string{fmt.Sprintf("its rank is %d, worse than that of %s, which is %d (rank %s)", x.own.Rank,
			e.Leader, e.Candidates[leader].Rank, x.rank)}
	}

	return []string{fmt.Sprintf("its rank is %d, better than that of %s, which is %d, but a leader keeps its election "+
		"until its term ends, unless preempt is true: 'regent handoff %s --to %s' hands over now", x.own.Rank,
		e.Leader, e.Candidates[leader].Rank, e.Name, x.node)}
}

// better returns which candidates should claim a vacant election before this node.
func (x *subject) better() []string {
	var names []string
	for _, c := range x.election.Candidates {
		if c.CanLead && c.Rank > 0 && c.Rank < x.own.Rank {
			names = append(names, c.ID)
		}
	}
	if len(names) == 0 {
		return nil
	}

	return []string{fmt.Sprintf("it lets %s try first, because of their rank (rank %s)", strings.Join(names, ", "),
		x.rank)}
}
