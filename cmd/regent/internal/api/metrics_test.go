package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

func TestMetricsOfTheStoreAndPolls(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	a.becomes("/metrics", func(b map[string]any) bool {
		text, _ := b["text"].(string)
		for _, line := range []string{
			`regent_store_behind{election="seat"} 0`,
			`regent_store_regressions_total{election="seat"} 0`,
			"regent_poll_clock_jumps_total 0",
			"regent_polls_overdue 0",
		} {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}

		return true
	})
}

func TestTasksOfAFormerLeader(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	if err := a.Worker.Fence.Learn(regent.Token{Epoch: 9}); err != nil {
		t.Fatal(err)
	}

	got, body := a.ask("POST", "/v1/tasks",
		`{"election":"seat","leader":"x","epoch":1,"tasks":[{"id":"1","kind":"tcp"}]}`)
	if got != 409 || body["code"] != "epoch_passed" || body["epoch"] != 9.0 {
		t.Errorf("%d %v", got, body)
	}
}

func TestWorkerThatCannotWrite(t *testing.T) {
	t.Parallel()
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	if got := a.metric("regent_worker_writable"); got != "1" {
		t.Errorf("before: %s", got)
	}
	if _, body := a.ask("GET", "/readyz", ""); body["checks"].(map[string]any)["worker"] != "ok" {
		t.Errorf("before: %v", body)
	}

	dir := filepath.Dir(a.Worker.Fence.Path)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	a.post("/v1/elections/seat/step-down", `{"epoch":1}`) // the epoch of the next term cannot be kept
	a.becomes("/readyz", func(body map[string]any) bool {
		checks, _ := body["checks"].(map[string]any)
		text, _ := checks["worker"].(string)
		return strings.HasPrefix(text, "refuses tasks: ")
	})
	a.until("/readyz", 200) // it can still lead
	if got := a.metric("regent_worker_writable"); got != "0" {
		t.Errorf("after: %s", got)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
}
