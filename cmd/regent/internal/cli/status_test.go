package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/health"
)

// ask runs a command against a node that answers each path so. It returns what the command prints, and its error.
func ask(t *testing.T, of func(*Env) *cobra.Command, answers map[string]any, args ...string) (string, error) {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]string{"code": "not_found", "error": r.URL.Path}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer node.Close()

	var out, errs strings.Builder
	cmd := of(&Env{Out: &out, Errs: &errs, Location: func(address string) string { return address }})
	cmd.SetArgs(append(args, "--addr", node.URL))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// answer returns an answer of a node, from its JSON.
func answer(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func TestFinishedElectionIsNoProblem(t *testing.T) {
	list := func(finished bool) map[string]any {
		return map[string]any{
			"/v1/status": cluster.Status{},
			"/v1/elections": answer(`{"total": 1, "elections": [{"name": "nightly", "state": "vacant", "epoch": 1,
				"finished": %v, "why": {"reason": "returned", "text": "the work of x ended"}}]}`, finished),
		}
	}

	t.Run("status", func(t *testing.T) {
		out, err := ask(t, statusCmd, list(true))
		if err != nil || strings.Contains(out, "!") || !strings.Contains(out, "Election nightly: finished, epoch 1") {
			t.Errorf("%v:\n%s", err, out)
		}
	})

	t.Run("elections", func(t *testing.T) {
		out, err := ask(t, electionsCmd, list(true))
		if err != nil || strings.Contains(out, "vacant") || !strings.Contains(out, "finished") {
			t.Errorf("%v:\n%s", err, out)
		}
	})

	t.Run("an_election_with_candidates_is_leaderless", func(t *testing.T) {
		out, err := ask(t, statusCmd, list(false))
		if err != nil || !strings.Contains(out, "! NOBODY LEADS election nightly: the work of x ended; "+
			"no member campaigns for it: start a node") {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}

// TestHealthOfCandidate checks that a candidate which calls itself unhealthy is not shown as healthy, although the
// leader has not checked it since.
func TestHealthOfCandidate(t *testing.T) {
	for name, c := range map[string]struct {
		healthy bool
		checked string
		want    string
	}{
		"both_say_healthy":                {true, "healthy", "healthy"},
		"the_register_says_unhealthy":     {false, "healthy", "unhealthy"},
		"the_leader_found_it_partitioned": {true, "partitioned", "partitioned"},
		"the_leader_knows_more":           {false, "degraded", "degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{members: map[string]cluster.Member{"b": {ID: "b", Status: health.Status(c.checked)}}}
			row := r.candidate(cluster.Candidate{ID: "b", Eligible: true, Alive: true, Healthy: c.healthy})
			if got := row[3].Text; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestFailingHealthCheckIsAProblem(t *testing.T) {
	r := &Report{}
	s := cluster.Status{}
	s.Node = "b"
	s.Checks = map[string]string{"healthCheck": "health check (disk) has failed 3 times in a row: exit code 1"}
	r.addNode(s)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "b: healthCheck: health check (disk) has failed") {
		t.Errorf("%q", r.Problems)
	}
}

// TestGoneMember checks that a member which has died is neither counted as healthy nor left out.
func TestGoneMember(t *testing.T) {
	answers := map[string]any{
		"/v1/status": answer(`{"node": "b", "election": "x", "epoch": 1, "leader": "b", "role": "leader",
			"store": {"address": "redis://:***@db:6379/0"}, "checks": {"store": "ok"}}`),
		"/v1/elections": answer(`{"total": 1, "elections": [{"name": "x", "state": "led", "leader": "b", "epoch": 1,
			"candidates": [{"id": "b", "leads": true, "eligible": true, "alive": true, "healthy": true}]}]}`),
		"/v1/members": answer(`{"status": "healthy", "checkedAgoMs": 28000, "leader": "b", "epoch": 1,
			"counts": {"members": 2, "healthy": 1, "gone": 1}, "members": [
			{"id": "a", "status": "gone", "role": "standby", "why": "its process died",
				"since": "2026-01-02T03:04:05Z"},
			{"id": "b", "status": "healthy", "role": "leader", "lastSeenMs": 28000}]}`),
	}

	for name, c := range map[string]struct {
		of   func(*Env) *cobra.Command
		want []string
	}{
		"status": {statusCmd, []string{"a is gone since ", ": its process died",
			"health and last seen are as of the last check 28.0 s ago"}},
		"members": {membersCmd, []string{"1 of 2 members gone, as of the last check 28.0 s ago", "a  -  gone"}},
		"doctor":  {doctorCmd, []string{"1 member, all healthy", "a is gone since", "nobody could take over"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := ask(t, c.of, answers)
			plain := regexp.MustCompile(`[ \n]{2,}`).ReplaceAllString(out, "  ")
			for _, want := range c.want {
				if err != nil || !strings.Contains(plain, want) {
					t.Errorf("%v: no %q in\n%s", err, want, out)
				}
			}
		})
	}

	t.Run("doctor_checks_no_other_store_than_that_of_the_node", func(t *testing.T) {
		out, err := ask(t, doctorCmd, answers)
		if err != nil || !strings.Contains(out, "store redis://:***@db:6379/0\n") ||
			!strings.Contains(out, "b does not tell the password of its store") || strings.Contains(out, "regent.db") {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}

func TestEveryFailingCheckIsAProblem(t *testing.T) {
	s := cluster.Status{}
	s.Node = "b"
	s.Checks = map[string]string{
		"worker": "refuses tasks: no space left on device", "writes": "writes fail", "config": "a has another token",
		"loop": "ok",
	}
	want := []string{"b: writes: writes fail", "b: worker: refuses tasks: no space left on device"}
	if got := failedChecks(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
