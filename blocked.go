package regent

import (
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file is about a member that cannot join, because another process has its ID.

// factsOfBlocker are the facts of the other process that help people to find it.
var factsOfBlocker = []string{"host", "pid"}

// maxQuoted is how many bytes are quoted of each text that another process has published.
const maxQuoted = 100

// cut returns at most n bytes of a text, and whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func quoted(s string) string { return cut(s, maxQuoted) }

// Blocked returns why the member cannot join; empty if nothing keeps it from joining. Until it has joined, the member
// campaigns for no election that needs its heartbeat.
func (m *Member) Blocked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocked
}

// joinBlocked reports which process has this member's ID: once when it is found, and once more when it is known to be
// alive.
func (r *run) joinBlocked(e core.Event) {
	l := e.Other
	text := blockedText(l, e.Alive)
	r.m.mu.Lock()
	r.m.blocked = text
	r.m.mu.Unlock()

	metadata := e.Metadata()
	metadata["error"] = text
	metadata["incarnation"] = quoted(l.Holder.Incarnation)
	if l.Addr != "" {
		metadata["addr"] = quoted(l.Addr)
	}

	facts := memberInfo(l).Facts
	for _, name := range factsOfBlocker {
		if facts[name] != "" {
			metadata[name] = quoted(facts[name])
		}
	}

	r.m.emit(Event{Kind: EventMemberWaiting, Metadata: metadata})
}

// blockedText returns who has the ID, where it runs, and what to do.
func blockedText(l driver.Record, alive bool) string {
	who := fmt.Sprintf("member ID %q", cut(l.Holder.ID, driver.MaxName))
	if details := blockerDetails(l); len(details) > 0 {
		who += " (" + strings.Join(details, ", ") + ")"
	}

	if alive {
		return "another process with " + who + " is alive: stop it, or give this one another ID; " +
			"this one joins when that one has left"
	}

	return "another process with " + who + " has not left: if it is dead, this one joins when its lease of " +
		l.Duration.String() + " has expired; if it is alive, stop it or give this one another ID"
}

// blockerDetails returns what the other process has published about itself.
func blockerDetails(l driver.Record) []string {
	var details []string
	if l.Addr != "" {
		details = append(details, quoted(l.Addr))
	}

	facts := memberInfo(l).Facts
	for _, name := range factsOfBlocker {
		if facts[name] != "" {
			details = append(details, name+" "+quoted(facts[name]))
		}
	}

	if !l.Since.IsZero() {
		details = append(details, "joined "+l.Since.UTC().Format(time.RFC3339))
	}
	return details
}
