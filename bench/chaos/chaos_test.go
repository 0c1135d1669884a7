package main

import (
	"strings"
	"testing"
)

// TestChaos is the short form of 'make chaos': real processes, and a leader that is killed.
func TestChaos(t *testing.T) {
	for name, args := range map[string][]string{
		"killed":  {"-for", "8s", "-kill-every", "3s"},
		"stopped": {"-for", "8s", "-kill-every", "3s", "-signal", "TERM", "-rolling", "-both"},
		"left":    {"-for", "4s", "-kill-every", "0", "-nodes", "1", "-kind", "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := invoke(append(args, "-polls", "20", "-v"), &out); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, out.String())
			}

			report := out.String()
			if !strings.Contains(report, "20 polls, ") ||
				!strings.Contains(report, " 0 left out, 0 completed twice") {
				t.Errorf("the report is:\n%s", report)
			}

			ended := strings.Count(report, " ended, ")
			if name != "left" && ended < 2 || name == "left" && !strings.Contains(report, "allocations") {
				t.Errorf("%d were ended:\n%s", ended, report)
			}
		})
	}

	if code := invoke([]string{"-signal", "HUP"}, &strings.Builder{}); code != 64 {
		t.Errorf("exit code %d for a signal that is not allowed", code)
	}
}
