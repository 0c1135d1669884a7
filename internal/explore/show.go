package explore

import (
	"fmt"
	"strings"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Witness is a set of things that were shown to be reachable: a run in which nothing happens proves nothing.
type Witness uint32

// The witnesses.
const (
	TookOverExpired   Witness = 1 << iota // an election was claimed that had not been released
	TookOverReleased                      // an election was claimed after a release
	Adopted                               // a claim of unknown outcome was found applied by a read, and became a term
	AppliedLate                           // a request was applied after its sender had given up on it
	Conflicted                            // a swap was refused
	Revoked                               // an expired heartbeat was made vacant by somebody else
	Rejoined                              // a member joined again while an election named its earlier incarnation
	GaveBack                              // a member released an election on which it had no term
	ClaimedOnNotice                       // an election was claimed on a notification, without a read
	WaitedForRollback                     // a candidate saw that the store had lost writes
	Saved                                 // a checkpoint was written
	HandedOver                            // an election was claimed by the successor that was named
	Left                                  // a member register was made vacant by its own process
	Listed                                // a list showed another member
	Removed                               // a register was removed
	BeganAgain                            // a term began in an election that somebody had retired
	Refused                               // a fence refused a task
	Killed                                // a reaper killed its process
	Reaped                                // a reaper freed what a dead process held
	PausedIt                              // an election was paused
	RevokedSilent                         // a retirement revoked the heartbeat of a member that had not left
	ClaimedKnown                          // an election was claimed without a read, by who had released it
)

var witnesses = [...]string{
	"took over after expiry", "took over after a release", "adopted", "applied late", "conflicted", "revoked",
	"rejoined", "gave back", "claimed on a notification", "waited after a rollback", "saved", "handed over", "left",
	"listed",
	"removed", "began again after a retirement", "refused by a fence", "killed by the reaper", "freed by the reaper",
	"paused", "revoked for a retirement", "claimed without a read",
}

// String lists the witnesses.
func (s Witness) String() string {
	var all []string
	for i, name := range witnesses {
		if s&(1<<i) != 0 {
			all = append(all, name)
		}
	}

	return strings.Join(all, ", ")
}

// describe puts an action into words.
func (w *world) describe(a action) string {
	switch a.verb {
	case pass:
		return fmt.Sprintf("t=%d %s", (w.now+tick)/tick-100, verbs[a.verb])
	case apply, deliver, loseRequest, loseAnswer, delay, notSent, drop:
		m := &w.msgs[a.i]
		what := "read of " + m.record.Name
		if m.verb == core.Swap {
			what = fmt.Sprintf("write of %s", line(&m.record))
		}

		if m.verb == core.Remove {
			what = "removal of " + m.record.Name + "@" + m.record.Rev
		}

		return fmt.Sprintf("p%d: %s (%d) %s", m.proc, what, m.id>>32, verbs[a.verb])
	case rollBack:
		return fmt.Sprintf("%s: %d", verbs[a.verb], a.k)
	case rollBackOne:
		return verbs[a.verb] + " " + w.store.names[a.i]
	case takeTask:
		t := w.tasks[a.i]
		return fmt.Sprintf("%s p%d: %v", verbs[a.verb], t.proc, t.token)
	case reap:
		return fmt.Sprintf("%s %s of %s", verbs[a.verb], w.dead[a.i].register, w.dead[a.i].holder)
	}

	return fmt.Sprintf("p%d %s", a.i, verbs[a.verb])
}

func line(r *driver.Record) string {
	who := r.Holder.ID + r.Holder.Incarnation
	return fmt.Sprintf("%s@%s{%s e%d n%d +%d %s}", r.Name, r.Rev, who, r.Epoch, r.Nonce, r.Edits, r.Next)
}

// show puts a state into words.
func (w *world) show() string {
	var b strings.Builder
	for i := range w.store.records {
		if r := &w.store.records[i]; r.Rev != "" {
			fmt.Fprintf(&b, "%s ", line(r))
		}
	}

	for i := range w.procs {
		for k, t := range w.procs[i].terms {
			if t != nil {
				left := float64(w.procs[i].deadlines[t.register]-w.now) / float64(tick)
				fmt.Fprintf(&b, "p%d LEADS %s e%d for %.1f ", i, election(k), t.epoch, left)
			}
		}
	}

	return b.String()
}
