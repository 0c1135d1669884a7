package elections

import (
	"fmt"
	"time"

	"github.com/regentd/regent"
)

// Why is how the term before the current one ended: the reason why the current one began.
type Why struct {
	Previous string    `json:"previous"`           // who led; empty if nobody did, or that is not known
	Reason   string    `json:"reason"`             // of the end of that term; first if there was none
	Ended    time.Time `json:"ended,omitzero"`     // by the wall clock of whoever ended it
	VacantMs *int64    `json:"vacantMs,omitempty"` // how long nobody led; left out if not known, or if nobody leads yet
	Text     string    `json:"text"`               // all of it as a sentence
}

// Explain returns how the term before the current one ended or, if nobody leads, how the last one ended.
func Explain(v regent.View) *Why {
	y := inWords(v.Before())
	if v.Expired {
		y.Text += "; nobody has taken over"
	}
	return y
}

// inWords returns the end of a term, also as a sentence.
func inWords(b regent.Before) *Why {
	y := &Why{Previous: b.Leader, Reason: string(b.Reason), Ended: b.Ended, Text: Sentence(b.Leader, b.Reason)}

	if b.Vacant >= 0 {
		ms := b.Vacant.Milliseconds()
		y.VacantMs = &ms
		y.Text += fmt.Sprintf("; nobody led for %v", b.Vacant.Round(time.Millisecond))
	}

	return y
}

// Sentence returns the end of a term of a leader in words. A reason that is not known here is shown as it is.
func Sentence(who string, reason regent.Reason) string {
	if who == "" {
		who = "the last leader"
	}

	known := map[regent.Reason]string{
		regent.ReasonFirst:     "nobody has led before",
		regent.ReasonForgotten: "somebody has led before, but the store has no record of it",
		regent.ReasonDied:      "the process of " + who + " died",
		regent.ReasonKilled:    "the process of " + who + " was frozen past its deadline, and its reaper killed it",
		regent.ReasonExpired: "the lease of " + who +
			" expired: its process may have died, hung, or lost the store",
		regent.ReasonRejoined:    who + " has joined again since: it was restarted, or had lost its lease",
		regent.ReasonShutdown:    who + " was shut down and released the election",
		regent.ReasonHandoff:     who + " was asked to hand over and released the election",
		regent.ReasonSteppedDown: who + " was asked to step down and released the election",
		regent.ReasonPaused:      who + " was asked to step down while the election was paused",
		regent.ReasonUnhealthy:   who + " was unhealthy and released the election",
		regent.ReasonFenced:      who + " was refused by a fence that had seen a higher epoch",
		regent.ReasonReturned:    "the work of " + who + " ended",
		regent.ReasonPartitioned: who + " could not renew its lease in time",
		regent.ReasonLost:        who + " found its lease taken",
		regent.ReasonPanicked:    "the loop of " + who + " panicked",
		regent.ReasonAbandoned:   who + " claimed the election after it had stopped campaigning, and released it",
	}

	if text := known[reason]; text != "" {
		return text
	}

	return fmt.Sprintf("the term of %s ended: %s", who, reason)
}
