package api_test

import (
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// electionNamed returns an election of an answer of /v1/elections, or nil.
func electionNamed(body map[string]any, name string) map[string]any {
	all, _ := body["elections"].([]any)
	for _, e := range all {
		if e := e.(map[string]any); e["name"] == name {
			return e
		}
	}

	return nil
}

func TestElections(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	b := serve(t, store, "b", "")
	b.until("/standby", 200)

	t.Run("every_node_lists_the_elections_of_the_store", func(t *testing.T) {
		for _, n := range []*testNode{a, b} {
			body := n.becomes("/v1/elections", func(body map[string]any) bool {
				e := electionNamed(body, "seat")
				return e != nil && e["candidateCount"] == 2.0 && e["heartbeatAgeMs"] != nil
			})
			e := electionNamed(body, "seat")
			if body["node"] != n.Member.ID || body["total"] != 1.0 || body["rank"] != "first" || e["state"] != "led" ||
				e["leader"] != "a" || e["leaderAddr"] != a.server.Listener.Addr().String() || e["epoch"] != 1.0 ||
				e["why"].(map[string]any)["reason"] != "first" || e["leaseDurationMs"] != 6000.0 {
				t.Errorf("%s: %v", n.Member.ID, body)
			}
			if left, _ := e["leaseRemainingMs"].(float64); left <= 0 || left > 6000 {
				t.Errorf("%s: %v", n.Member.ID, e)
			}
		}
	})

	t.Run("a_page_has_a_limit_and_goes_on_after_a_name", func(t *testing.T) {
		if _, err := store.Swap(t.Context(), driver.Record{Name: "again", Epoch: 1, Nonce: 1}); err != nil {
			t.Fatal(err)
		}

		a.becomes("/v1/elections?limit=1", func(body map[string]any) bool { return body["next"] == "again" })
		_, body := a.ask("GET", "/v1/elections?limit=1&after=again&candidates=0", "")
		if e := electionNamed(body, "seat"); e == nil || body["next"] != nil || len(e["candidates"].([]any)) != 0 ||
			e["candidateCount"] == 0.0 {
			t.Errorf("%v", body)
		}
	})

	t.Run("a_query_that_makes_no_sense_is_refused_with_its_rule", func(t *testing.T) {
		for query, want := range map[string]string{
			"limit=0":         `limit="0": must be a number from 1 to 1000`,
			"limit=x":         `limit="x": must be a number from 1 to 1000`,
			"candidates=1001": `candidates="1001": must be a number from 0 to 1000`,
			"after=%00":       `after="\x00": must be the name of an election`,
		} {
			got, body := a.ask("GET", "/v1/elections?"+query, "")
			text, _ := body["error"].(string)
			if got != 400 || body["code"] != "invalid_request" || !strings.Contains(text, want) {
				t.Errorf("%s: %d %v", query, got, body)
			}
		}
	})
}

func TestElectionsOfABrokenStore(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	store.SetFaults(memstore.Faults{Outage: true})
	body := a.until("/v1/elections", 502)
	if text, _ := body["error"].(string); body["code"] != "store_error" || !strings.Contains(text, "list elections: ") {
		t.Errorf("%v", body)
	}
	a.until("/readyz", 503)
	a.until("/healthz", 503)
	store.SetFaults(memstore.Faults{})
	a.until("/v1/elections", 200)
}
