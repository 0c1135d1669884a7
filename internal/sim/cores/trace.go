package cores

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file says in words what happens. A line has the time, the process, what it is, the number of the rule that has
// decided it, and the text.

// traceHeader stands over the columns of a trace.
const traceHeader = "   seconds  who   what      rule  text"

// line writes a line of the trace.
func (s *sim) line(who, what string, rule int, text string) {
	number := ""
	if rule > 0 {
		number = strconv.Itoa(rule)
	}

	s.trace(fmt.Sprintf("%10s  %-4s  %-8s  %4s  %s", seconds(s.now, s.exact), who, what, number, text))
}

// seconds is a time to the millisecond, or to the nanosecond.
func seconds(d time.Duration, exact bool) string {
	if exact {
		return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	}

	return fmt.Sprintf("%d.%03d", d/time.Second, d%time.Second/time.Millisecond)
}

// note says what happens outside of the processes.
func (s *sim) note(format string, args ...any) {
	if s.trace != nil {
		s.line("", "world", 0, fmt.Sprintf(format, args...))
	}
}

// note says what happens to a process.
func (p *proc) note(format string, args ...any) {
	if p.sim.trace != nil {
		p.sim.line(p.name, "world", 0, fmt.Sprintf(format, args...))
	}
}

func (p *proc) traceInput(in core.Input) { p.sim.line(p.name, "input", 0, p.inputText(in)) }
func (p *proc) traceEffect(e core.Effect) {
	if d, ok := e.(core.Decision); ok {
		text := d.What
		if d.Name != "" {
			text = d.Name + ": " + text
		}

		p.sim.line(p.name, "decision", d.Rule, text)
		return
	}

	switch e.(type) {
	case core.Follow, core.Unfollow: // the simulation notifies of everything
		return
	}

	p.sim.line(p.name, "effect", 0, p.effectText(e))
}

// inputText says what has happened to a core. It takes the value out of the interface, so that no input of an
// untraced run is allocated for it.
func (p *proc) inputText(in core.Input) string {
	switch in := in.(type) {
	case core.Join:
		return "start"
	case core.Campaign:
		return "campaign in " + in.Election
	case core.Withdraw:
		return "withdraw from " + in.Election
	case core.Answer:
		return p.answerText(&in)
	case core.Notice:
		switch {
		case in.Record.Name == "":
			return "notification: anything may have changed"
		case in.Record.Rev == "":
			return "notification: " + in.Record.Name + " has changed"
		}

		return "notification: " + in.Record.Name + " is " + text(&in.Record)
	case core.Tick:
		return "time has passed"
	case core.DutyStopped:
		return fmt.Sprintf("the duty of term %d of %s has stopped", in.Epoch, in.Election)
	case core.HandOff:
		return fmt.Sprintf("asked for a handoff of %s to %s", in.Election, in.To)
	case core.StepDown:
		return "asked that the leader of " + in.Election + " steps down"
	case core.Pause:
		return "asked for a pause of " + in.Election
	case core.Resume:
		return "asked for the end of the pause of " + in.Election
	case core.Save:
		return fmt.Sprintf("asked to save checkpoint %q under term %d of %s", in.Data, in.Epoch, in.Election)
	case core.Observed:
		return fmt.Sprintf("somebody has seen epoch %d of %s", in.Epoch, in.Election)
	case core.Fenced:
		return fmt.Sprintf("term %d of %s was refused: %d was seen", in.Epoch, in.Election, in.Newest)
	case core.Close:
		return "asked to leave"
	case core.Retire:
		return "asked to retire " + in.Register
	case core.Expired:
		return "the shell has ended what depends on " + in.Register
	case core.Health:
		return fmt.Sprintf("health check: healthy %t", in.Healthy)
	}

	return "an input of another kind"
}

func (p *proc) answerText(a *core.Answer) string {
	before := fmt.Sprintf("answer to %d: ", a.ID>>32)
	switch {
	case a.Outcome == core.Done && a.Record.Name == "":
		return fmt.Sprintf("%s%d members", before, len(a.Records))
	case a.Outcome == core.Done && p.reading:
		return before + a.Record.Name + " is " + text(&a.Record)
	case a.Outcome == core.Done:
		return before + "applied, as revision " + a.Record.Rev
	case a.Outcome == core.Conflict:
		return before + "conflict: the register has moved on"
	case a.Outcome == core.NotFound:
		return before + "never written"
	}

	return before + "unknown outcome"
}

// effectText says what a core asks for.
func (p *proc) effectText(e core.Effect) string {
	switch e := e.(type) {
	case core.Send:
		return sendText(&e)
	case core.Begin:
		return fmt.Sprintf("begin term %d of %s, as %s, believed until %s", e.Epoch, e.Election, e.Incarnation,
			p.moment(e.Deadline))
	case core.End:
		next := when(e.Next != "", ", make way"+successor(e.Next))
		return fmt.Sprintf("end term %d of %s: %s%s", e.Epoch, e.Election, e.Cause, next)
	case core.Finished:
		return fmt.Sprintf("term %d of %s is over%s", e.Epoch, e.Election, when(e.Kept, ", and could not be released"))
	case core.Renewed:
		if e.Deadline == 0 {
			return "nothing that depends on " + e.Register + " is believed any more"
		}

		return fmt.Sprintf("what depends on %s is believed until %s", e.Register, p.moment(e.Deadline))
	case core.Lifeline:
		return "tell the reaper: " + p.lifelineText(&e)
	case core.Event:
		return eventText(&e)
	case core.Changed:
		return "tell watchers: " + e.Record.Name + " is " + text(&e.Record)
	case core.Result:
		return fmt.Sprintf("result of request %d: %s", e.ID, resultNames[e.Result])
	case core.Withdrawn:
		return "withdrawn from " + e.Election
	case core.Wake:
		return "call again at " + p.moment(e.At)
	case core.Learned:
		return fmt.Sprintf("tell fences: epoch %d of %s", e.Epoch, e.Election)
	case core.Forgotten:
		return "the epochs of " + e.Election + " are covered by the floor"
	case core.Subscribe:
		return "subscribe to notifications"
	case core.Closed:
		return "closed" + when(!e.Left, ", the member register may still show this process")
	}

	return "an effect of another kind"
}

var resultNames = map[core.ResultCode]string{
	core.OK: "done", core.NotLeader: "this member does not lead in that epoch", core.OutcomeUnknown: "unknown outcome",
	core.Moved: "the election has moved on", core.NobodyLeads: "nobody leads", core.LeadsAlready: "leads already",
	core.IsPaused: "paused", core.InUse: "in use", core.Unanswered: "the store did not answer in time",
}

func sendText(e *core.Send) string {
	switch e.Verb {
	case core.List, core.Skim:
		return fmt.Sprintf("request %d: list the members", e.ID>>32)
	case core.Named:
		return fmt.Sprintf("request %d: does an election name %s?", e.ID>>32, e.Record.Name)
	case core.Remove:
		return fmt.Sprintf("request %d: remove %s in revision %s", e.ID>>32, e.Record.Name, e.Record.Rev)
	case core.Get:
		return fmt.Sprintf("request %d: read %s", e.ID>>32, e.Record.Name)
	}

	over := "revision " + e.Record.Rev
	if e.Record.Rev == "" {
		over = "nothing"
	}

	return fmt.Sprintf("request %d: write %s over %s: %s", e.ID>>32, e.Record.Name, over, text(&e.Record))
}

func (p *proc) lifelineText(e *core.Lifeline) string {
	state := "holds no term"
	switch {
	case e.Over:
		state = "has been released"
	case e.Stopped:
		state = "has stopped all duties"
	case e.Holds:
		state = "holds a term until " + p.moment(e.Deadline)
	}

	return fmt.Sprintf("%s of %s %s", e.Holder, e.Register, state)
}

func eventText(e *core.Event) string {
	parts := []string{"event " + string(e.Kind)}
	if e.Election != "" {
		parts = append(parts, fmt.Sprintf("%s epoch %d", e.Election, e.Epoch))
	}

	if e.Holder.ID != "" {
		parts = append(parts, e.Holder.String())
	}

	if e.Previous != "" {
		parts = append(parts, "after "+e.Previous)
	}

	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}

	return strings.Join(parts, ", ")
}

// moment is a time by the clock of a process, as the true one.
func (p *proc) moment(t core.Time) string {
	if t == core.Never {
		return "no time"
	}

	return seconds(time.Duration(float64(t-core.Time(p.offset))/p.rate), p.sim.exact)
}

// text says what a register holds.
func text(r *driver.Record) string {
	if r.Rev == "" && r.Holder.ID == "" && r.Nonce == 0 {
		return "never written"
	}

	var b strings.Builder
	member := strings.HasPrefix(r.Name, driver.MemberPrefix)
	switch {
	case r.Vacant():
		b.WriteString("vacant")
	case member:
		b.WriteString("a heartbeat of " + r.Holder.String())
	default:
		b.WriteString("held by " + r.Holder.String())
	}

	if !member {
		fmt.Fprintf(&b, ", epoch %d", r.Epoch)
	}

	fmt.Fprintf(&b, ", attempt %d", r.Nonce)
	if r.Edits > 0 {
		fmt.Fprintf(&b, ", edit %d", r.Edits)
	}

	if r.Vacant() && r.Next != "" {
		b.WriteString(", reserved" + successor(r.Next))
	} else if r.Next != "" {
		b.WriteString(", asked to make way" + successor(r.Next))
	}

	b.WriteString(when(r.Paused, ", paused"))
	if len(r.Data) > 0 {
		fmt.Fprintf(&b, ", checkpoint %q", r.Data)
	}

	return b.String()
}

func successor(next string) string {
	switch next {
	case "":
		return ""
	case "*":
		return " for anybody else"
	}

	return " for " + next
}

func when(holds bool, text string) string {
	if holds {
		return text
	}

	return ""
}
