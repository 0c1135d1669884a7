package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUpgrade starts a node with the configuration of ServiceRadar.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	config := writeFile(t, filepath.Join(t.TempDir(), "regent.yaml"), "eligible: true\nelection_interval: 5_000\n"+
		"takeover_delay: 1_000\ncluster_coordinator: true\nevent_prefix: serviceradar\n")
	env := []string{"COORDINATOR_ELIGIBLE=true", "COORDINATOR_TAKEOVER_DELAY=2000"}
	a := start(t, "core-elx", sqliteStore(t), env, "--config", config)
	a.until("/leader", 200)

	t.Run("N03_each_key_in_snake_case_is_warned_of_once", func(t *testing.T) {
		for _, want := range []string{
			"election_interval .*is accepted as electionInterval: rename it",
			"takeover_delay .*is accepted as takeoverDelay: rename it",
			"event_prefix .*is accepted as eventPrefix: rename it",
			"cluster_coordinator .*is deprecated and ignored",
		} {
			if got := a.said(`level=WARN msg="` + want); len(got) != 1 {
				t.Errorf("%s: %q", want, got)
			}
		}
	})

	t.Run("N03_events_carry_the_prefix_on_the_stream_and_the_log_stays_as_it_is", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the stream does not end by itself
		defer cancel()

		r, err := http.NewRequestWithContext(ctx, "GET", a.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		name := ""
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if value, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				name = value
			}
			data, ok := strings.CutPrefix(in.Text(), "data: ")
			if !ok || name != "serviceradar:coordinator:became_leader" {
				continue
			}

			var event struct {
				Kind, Name, Node string
				Measurements     map[string]float64
			}
			if err := json.Unmarshal([]byte(data), &event); err != nil || event.Kind != "coordinator:became_leader" ||
				event.Name != name || event.Node != "core-elx" || event.Measurements["time"] == 0 {
				t.Errorf("%v, %s", err, data)
			}
			break
		}

		if name != "serviceradar:coordinator:became_leader" || len(a.said(`msg="became leader"`)) != 1 {
			t.Errorf("the last event is %q", name)
		}
	})

	a.stop()
}
