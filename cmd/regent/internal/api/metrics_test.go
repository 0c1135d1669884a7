package api_test

import (
	"strings"
	"testing"

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
