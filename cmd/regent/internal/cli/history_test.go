package cli

import (
	"strings"
	"testing"
)

// TestHistoryInWords checks that the table says in words why terms ended, and the JSON by the stable reason.
func TestHistoryInWords(t *testing.T) {
	answers := map[string]any{
		"/v1/status": answer(`{"node": "a", "election": "x", "epoch": 2, "leader": "a"}`),
		"/v1/elections": answer(`{"elections": [{"name": "x", "state": "led", "leader": "a", "holder": "a", "epoch": 2,
			"since": "2026-01-01T00:00:02Z"}]}`),
		"/v1/elections/x/history": answer(`{"election": "x", "terms": [{"epoch": 1, "holder": "b", "reason": "killed",
			"began": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:01Z"}]}`),
	}

	out, err := ask(t, historyCmd, answers)
	if err != nil || !strings.Contains(out, "GAP BEFORE") ||
		!strings.Contains(out, "the process of b was frozen past its deadline, and its reaper killed it") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = ask(t, historyCmd, answers, "-o", "json")
	if err != nil || !strings.Contains(out, `"reason": "killed"`) {
		t.Errorf("%v:\n%s", err, out)
	}
}
