package cli

import (
	"errors"
	"strings"
	"testing"
)

// TestIsLeader asks about another member than the node that is asked.
func TestIsLeader(t *testing.T) {
	answers := map[string]any{
		"/v1/status": answer(`{"node": "a", "role": "leader", "election": "x", "epoch": 3, "leader": "a"}`),
		"/v1/elections": answer(`{"elections": [{"name": "x", "state": "led", "leader": "a", "holder": "a", "epoch": 3,
			"why": {"previous": "gone"}, "candidates": [{"id": "a", "leads": true}, {"id": "b"}]}]}`),
		"/v1/members": answer(`{"members": [{"id": "a"}, {"id": "b"}, {"id": "observer"}]}`),
	}
	for name, want := range map[string]struct {
		role string
		code int
	}{
		"a": {"leader", 0}, "b": {"standby", exitStandby}, "gone": {"standby", exitStandby},
		"observer": {"standby", exitStandby}, "nope": {"unknown", exitUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := ask(t, isLeaderCmd, answers, name)
			code := 0
			if exit := (*ExitError)(nil); errors.As(err, &exit) {
				code = exit.Code
			}
			if strings.TrimSpace(out) != want.role || code != want.code {
				t.Errorf("%q, exit code %d: %v", out, code, err)
			}
			if name == "nope" && !strings.Contains(err.Error(), `there is no member "nope"; there are a, b, observer`) {
				t.Errorf("%v", err)
			}
		})
	}
}
