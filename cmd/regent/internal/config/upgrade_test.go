package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

// TestUpgrade loads files of other systems.
func TestUpgrade(t *testing.T) {
	load := func(t *testing.T, yaml string) *config.Settings {
		t.Helper()
		s, err := loaded{yaml: yaml}.load()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	t.Run("N03_keys_in_snake_case_count_with_one_warning_each", func(t *testing.T) {
		s := load(t, "election_interval: 7_000\ntakeover_delay: 1s\n"+
			"health_check: {command: true}\ncluster_coordinator: true\n")
		if s.Regent.ElectionInterval != 7*time.Second || s.Regent.TakeoverDelay != time.Second || s.HealthCheck == nil {
			t.Errorf("%v", s)
		}
		want := []string{
			"election_interval (file regent.yaml:1) is accepted as electionInterval: rename it",
			"takeover_delay (file regent.yaml:2) is accepted as takeoverDelay: rename it",
			"health_check (file regent.yaml:3) is accepted as healthCheck: rename it",
			"cluster_coordinator (file regent.yaml:4) is deprecated and ignored: the election decides; remove it",
		}
		if !slices.Equal(s.Warnings, want) {
			t.Errorf("got %s", strings.Join(s.Warnings, "\n"))
		}
	})

	t.Run("N03_every_key_has_a_form_in_snake_case", func(t *testing.T) {
		for _, k := range config.Keys() {
			snake := strings.ToLower(strings.TrimPrefix(k.Variable(), "REGENT_"))
			_, err := loaded{yaml: snake + ": [[no, value]]"}.load()
			if err == nil || strings.Contains(err.Error(), "unknown key") {
				t.Errorf("%s: %v", snake, err)
			}
		}
	})

	t.Run("N03_a_poll_has_keys_in_snake_case_too", func(t *testing.T) {
		s := load(t, "polls:\n  p:\n    kind: tcp\n    target: h:1\n    cron: '* * * * *'\n"+
			"    time_zone: Europe/Berlin\n")
		if s.Polls[0].TimeZone != "Europe/Berlin" || !slices.Equal(s.Warnings, []string{
			"polls.p.time_zone (file regent.yaml:6) is accepted as polls.p.timeZone: rename it"}) {
			t.Errorf("%v %v", s.Polls, s.Warnings)
		}
	})

	t.Run("N03_a_key_in_both_forms_is_refused", func(t *testing.T) {
		_, err := loaded{yaml: "electionInterval: 7s\nelection_interval: 8s"}.load()
		if err == nil || err.Error() != "file regent.yaml:2: key electionInterval is already set in line 1" {
			t.Error(err)
		}
	})

	t.Run("N03_a_bad_value_is_named_by_the_key_that_counts", func(t *testing.T) {
		_, err := loaded{yaml: "takeover_delay: soon"}.load()
		want := `file regent.yaml:1: takeoverDelay "soon": takeoverDelay must be`
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Error(err)
		}
	})

	t.Run("N03_the_prefix_of_events_must_be_a_word", func(t *testing.T) {
		if s := load(t, "event_prefix: serviceradar"); s.EventPrefix != "serviceradar" {
			t.Error(s.EventPrefix)
		}
		for _, bad := range []string{"a b", "'a:'", "'a\tb'", strings.Repeat("x", 101)} {
			_, err := loaded{yaml: "eventPrefix: " + bad}.load()
			if err == nil || !strings.Contains(err.Error(), "eventPrefix must be 1 to 100 of A-Z, a-z, 0-9") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}
