package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/elections"
)

const (
	// settleInterval is how often a record is read while a verb is waited for.
	settleInterval = 50 * time.Millisecond
	// settleTimeout is how long the record may take to show what came of a verb that has ended in an error.
	settleTimeout = 5 * time.Second
	// leastSettle is the same after --timeout has passed, so that the command does not take much longer.
	leastSettle = time.Second
)

// otherLeader is the outcome of a handoff after which another member leads than the one that was named.
const otherLeader = "other_leader"

// Outcome is how a verb has ended.
type Outcome struct {
	Verb     cluster.Verb `json:"verb"`
	Election string       `json:"election"`
	Seen     uint64       `json:"seen"`    // the epoch that was sent
	Outcome  string       `json:"outcome"` // done, refused, running, or other_leader: not the one that was named
	Leader   string       `json:"leader"`  // afterwards
	Epoch    uint64       `json:"epoch"`   // afterwards
	TookMs   int64        `json:"tookMs"`
	Text     string       `json:"text"`
}

// steering is one verb on its way.
type steering struct {
	*session
	steerOptions
	election cluster.Election
	began    time.Time
}

// steer runs a verb and prints how it has ended.
func (s *session) steer(ctx context.Context, name string, opts steerOptions) error {
	e, err := s.shown(ctx, name)
	if err != nil {
		return err
	}

	v := &steering{session: s, steerOptions: opts, election: e}
	if v.epoch == 0 {
		v.epoch = e.Epoch
	}
	if why := v.impossible(ctx); why != "" {
		v.began = time.Now()
		return v.print(v.outcome("refused", cluster.Record{Leader: e.Leader, Epoch: e.Epoch}, why))
	}
	if err := v.confirm(); err != nil {
		return err
	}

	done := output.Progress(s.Errs, fmt.Sprintf("%s of election %s", opts.verb, name))
	v.began = time.Now()
	o, err := v.do(ctx)
	done()
	if err != nil {
		return err
	}

	return v.print(o)
}

// shown returns the election that a verb is about.
func (s *session) shown(ctx context.Context, name string) (cluster.Election, error) {
	ctx, done := s.bounded(ctx)
	defer done()

	all, err := s.cluster.Elections(ctx)
	if err != nil {
		return cluster.Election{}, err
	}
	chosen, err := choose(all, []string{name})
	if err != nil {
		return cluster.Election{}, err
	}

	// The list may be a second old, and the verb needs the epoch of now.
	e := chosen[0]
	r, err := s.cluster.Record(ctx, name)
	e.Paused = r.Paused
	switch {
	case err != nil:
		return cluster.Election{}, err
	case r.Epoch == e.Epoch && r.Leader == e.Holder:
		return e, nil
	}

	e.Epoch, e.Holder, e.Leader, e.State, e.Since = r.Epoch, r.Leader, r.Leader, elections.Led, r.Since
	if r.Leader == "" {
		e.State = elections.Vacant
	}
	for i, c := range e.Candidates {
		e.Candidates[i].Leads = c.ID == r.Leader
	}
	return e, nil
}

// confirm asks on a terminal whether to go on, with the epoch that the verb will name.
func (v *steering) confirm() error {
	if v.yes {
		return nil
	}
	if !output.Terminal(v.In) {
		return UsageError(v.cmd, "%s asks before it acts, and standard input is no terminal: add --yes", v.verb)
	}

	e := v.election
	leads := "nobody leads"
	if e.State == elections.Led {
		leads = e.Leader + " leads since " + output.Since(e.Since, time.Now())
	}
	fmt.Fprintf(v.Errs, "Election %s: %s, epoch %d.\n%s\nGo on? [y/N] ", output.Printable(e.Name),
		output.Printable(leads), v.epoch, output.Printable(v.consequence()))

	line, _ := bufio.NewReader(v.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &ExitError{ExitFailure, errors.New("not confirmed: nothing was changed")}
}

// consequence returns what a verb will do.
func (v *steering) consequence() string {
	e := v.election
	switch v.verb {
	case cluster.HandOff:
		return fmt.Sprintf("This ends its term: its duties stop, and %s takes over.", v.to)
	case cluster.Pause:
		return "Nobody takes over while the election is paused, not even if its leader dies."
	}
	if e.Paused {
		return fmt.Sprintf("This ends its term: its duties stop. The election is paused: nobody leads until "+
			"'regent resume %s'.", e.Name)
	}

	for _, c := range e.Candidates {
		if c.CanLead && !c.Leads {
			return fmt.Sprintf("This ends its term: its duties stop, and another candidate takes over: %s, or a "+
				"better one.", c.ID)
		}
	}
	return "This ends its term: its duties stop. No other candidate can lead: nobody leads until it campaigns again."
}

// do runs the verb.
func (v *steering) do(ctx context.Context) (Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()

	err := v.cluster.Do(limited, v.verb, v.election.Name, v.epoch, v.to)
	var refused *cluster.RefusedError
	switch {
	case err == nil && (v.wait || v.verb == cluster.HandOff || v.verb == cluster.StepDown):
		return v.settle(limited, v.wait, nil)
	case err == nil:
		return v.settle(limited, false, nil)
	case errors.Is(err, cluster.ErrNotFound):
		return Outcome{}, err
	case errors.As(err, &refused) && refused.Code != "refused" && refused.Code != "timeout":
		return v.outcome("refused", cluster.Record{Epoch: refused.Epoch}, refused.Text), nil
	case errors.Is(err, cluster.ErrUnreachable) && limited.Err() == nil && !v.answers(ctx):
		return Outcome{}, err
	}

	// The verb may have been recorded all the same: the record says what came of it.
	fresh, stop := context.WithTimeout(context.WithoutCancel(ctx), v.settleTime())
	defer stop()

	if why := v.unwritable(fresh); why != "" {
		err = &cluster.RefusedError{Code: string(api.CodeRefused), Text: why}
	}
	return v.settle(fresh, false, err)
}

// settleTime returns how long the record may take after an error: until --timeout has passed, within limits.
func (v *steering) settleTime() time.Duration {
	return min(max(v.timeout-time.Since(v.began), leastSettle), settleTimeout)
}

// answers reports whether the cluster answers a question.
func (v *steering) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()

	_, err := v.cluster.Record(ctx, v.election.Name)
	return err == nil || !errors.Is(err, cluster.ErrUnreachable)
}

// settle reads the record until it shows how the verb has ended. failed is the error of the verb, if it had one; wait
// says to wait for the next leader.
func (v *steering) settle(ctx context.Context, wait bool, failed error) (Outcome, error) {
	var last cluster.Record
	var err error
	for {
		last, err = v.cluster.Record(ctx, v.election.Name)
		if err == nil {
			if o, over := v.judge(last, wait, failed); over {
				return o, nil
			}
		}

		select {
		case <-ctx.Done():
			if err != nil {
				text := fmt.Sprintf("it waits for %s to answer: %v", v.cluster.Where(), err)
				return v.outcome("running", cluster.Record{}, text), nil
			}
			o, _ := v.judge(last, false, errTimeout)
			return o, nil
		case <-time.After(settleInterval):
		}
	}
}

var errTimeout = errors.New("--timeout has passed")

// timedOut reports whether a verb was under way when its time had passed.
func timedOut(failed error) bool {
	return errors.Is(failed, errTimeout) || errors.Is(failed, context.DeadlineExceeded)
}

// judge returns how the verb has ended, as a record shows it, and whether that is the end.
func (v *steering) judge(r cluster.Record, wait bool, failed error) (Outcome, bool) {
	if v.verb == cluster.Pause || v.verb == cluster.Resume {
		return v.judgePause(r, wait, failed)
	}

	next := v.to
	if v.verb == cluster.StepDown {
		next = "*"
	}
	name := v.election.Name
	switch {
	case r.Epoch > v.epoch && v.to != "" && r.Leader != v.to && r.Leader != "":
		return v.outcome(otherLeader, r, fmt.Sprintf("the term of epoch %d has ended, and %s took over instead of %s: "+
			"'regent why %[3]s' says more", v.epoch, r.Leader, v.to)), true
	case r.Epoch > v.epoch && r.Leader == "":
		return v.outcome("done", r, fmt.Sprintf("the term has ended, and so has that of epoch %d", r.Epoch)), true
	case r.Epoch > v.epoch:
		return v.outcome("done", r, fmt.Sprintf("%s leads election %s, epoch %d", r.Leader, name, r.Epoch)), true
	case r.Leader == "" && (failed == nil || r.Next != "" || errors.Is(failed, errTimeout)):
		if failed != nil || wait {
			return v.outcome("running", r, fmt.Sprintf("%s has released election %s; it waits for %s",
				v.election.Holder, name, v.successor(r))), failed != nil
		}
		text := fmt.Sprintf("%s has released election %s", v.election.Holder, name)
		if r.Paused {
			text += fmt.Sprintf("; it is paused: nobody leads until 'regent resume %s'", name)
		}
		return v.outcome("done", r, text), true
	case r.Leader != "" && (r.Next == next || timedOut(failed)): // a leader that is asked itself writes no request
		lease := output.Milliseconds(v.election.LeaseDurationMs)
		text := fmt.Sprintf("%s was asked to release election %s; it waits for its duties to stop, or for its lease "+
			"of %s to expire", r.Leader, name, lease)
		return v.outcome("running", r, text), failed != nil
	case failed != nil && !errors.Is(failed, errTimeout):
		return v.refusal(r, failed), true
	}

	return v.outcome("running", r, fmt.Sprintf("it waits for %s to write the request", v.cluster.Where())), false
}

// judgePause is judge for pause and resume.
func (v *steering) judgePause(r cluster.Record, wait bool, failed error) (Outcome, bool) {
	name := v.election.Name
	paused := v.verb == cluster.Pause
	switch {
	case r.Paused != paused && failed != nil && !errors.Is(failed, errTimeout):
		return v.refusal(r, failed), true
	case r.Paused != paused:
		return v.outcome("running", r, fmt.Sprintf("it waits for %s to write the request", v.cluster.Where())), false
	case paused:
		text := fmt.Sprintf("election %s is paused: nobody claims it until 'regent resume %[1]s'", name)
		if r.Leader != "" && v.election.State == elections.Led {
			text += "; " + r.Leader + " goes on"
		}
		return v.outcome("done", r, text), true
	case r.Leader == "" && wait:
		return v.outcome("running", r, "it waits for a candidate to claim the election"), false
	case r.Leader == "" && errors.Is(failed, errTimeout):
		return v.outcome("running", r, "election "+name+" is resumed; it waits for a candidate to claim it"), true
	}

	return v.outcome("done", r, fmt.Sprintf("election %s is resumed", name)), true
}

// refusal is the outcome of a verb that was not recorded.
func (v *steering) refusal(r cluster.Record, failed error) Outcome {
	var refused *cluster.RefusedError
	if errors.As(failed, &refused) {
		return v.outcome("refused", r, refused.Text)
	}
	text := fmt.Sprintf("nothing has changed so far, and it waits for %s to write the request: %v", v.cluster.Where(),
		failed)
	return v.outcome("running", r, text)
}

// successor returns what an election that was released waits for.
func (v *steering) successor(r cluster.Record) string {
	switch {
	case r.Paused:
		return fmt.Sprintf("'regent resume %s': it is paused", v.election.Name)
	case v.to != "":
		return v.to + " to claim it"
	}
	return "a candidate to claim it"
}

func (v *steering) outcome(how string, r cluster.Record, text string) Outcome {
	return Outcome{
		Verb: v.verb, Election: v.election.Name, Seen: v.epoch, Outcome: how, Leader: r.Leader, Epoch: r.Epoch,
		TookMs: time.Since(v.began).Milliseconds(), Text: text,
	}
}

// print prints the outcome and returns its exit code.
func (v *steering) print(o Outcome) error {
	took := output.Milliseconds(o.TookMs)
	if v.format != output.Table {
		if err := v.Data(o); err != nil {
			return err
		}
	}

	switch o.Outcome {
	case "done":
		if v.format == output.Table {
			v.Printf("%s in %s: %s\n", v.Paint("done", output.Good), took, output.Printable(o.Text))
		}
		return nil
	case "running":
		err := fmt.Errorf("still running after %s: %s\n'regent status %s' shows what came of it", took, o.Text,
			o.Election)
		return &ExitError{ExitNotDone, err}
	}

	how := "refused"
	if o.Outcome == otherLeader {
		how = "another member leads"
	}
	return &ExitError{ExitFailure, fmt.Errorf("%s: %s", how, o.Text)}
}
