package regent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file tells that a member cannot join, because another process has its ID.

// knownFacts are those that help people to find a process.
var knownFacts = []string{"host", "pid"}

// maxBrief is how many bytes are passed on of what another process says of itself.
const maxBrief = 100

// cut returns at most n bytes of a text, and whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func brief(s string) string { return cut(s, maxBrief) }

// waiting tells who holds this member's ID: once when it is met, and once more when it is known to live.
func (r *run) waiting(e core.Event) {
	l := e.Other
	text := waitingText(l, e.Alive)
	r.m.mu.Lock()
	r.m.blocked = text
	r.m.mu.Unlock()

	meta := e.Metadata()
	meta["error"] = text
	facts := memberInfo(l).Facts
	for _, name := range knownFacts {
		if facts[name] != "" {
			meta[name] = brief(facts[name])
		}
	}
	meta["incarnation"] = brief(l.Holder.Incarnation)
	if l.Addr != "" {
		meta["addr"] = brief(l.Addr)
	}
	r.m.emit(Event{Kind: EventMemberWaiting, Metadata: meta})
}

// Blocked says why the member cannot join; empty if nothing keeps it from that. It then campaigns for nothing that
// needs a member's heartbeat.
func (m *Member) Blocked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocked
}

// waitingText says who has the ID, where, and what to do.
func waitingText(l driver.Record, alive bool) string {
	where := brief(l.Addr)
	facts := memberInfo(l).Facts
	var details []string
	for _, name := range knownFacts {
		if facts[name] != "" {
			details = append(details, name+" "+brief(facts[name]))
		}
	}
	if !l.Since.IsZero() {
		details = append(details, "joined "+l.Since.UTC().Format(time.RFC3339))
	}
	details = slices.DeleteFunc(append([]string{where}, details...), func(s string) bool { return s == "" })
	who := fmt.Sprintf("member ID %q", cut(l.Holder.ID, driver.MaxName))
	if len(details) > 0 {
		who += " (" + strings.Join(details, ", ") + ")"
	}
	if alive {
		return "another process with " + who + " is alive: stop it, or give this one another ID; " +
			"this one joins when that one has left"
	}
	return "another process with " + who + " has not left: if it is dead, this one joins when its lease of " +
		l.Duration.String() + " has expired; if it is alive, stop it or give this one another ID"
}
