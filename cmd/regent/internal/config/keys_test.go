package config_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
)

type entry struct{ Key, Value, Origin string }

// shown returns the settings as Explain shows them in JSON, by key.
func shown(t *testing.T, s *config.Settings) map[string]entry {
	t.Helper()
	var b bytes.Buffer
	var all struct{ Settings []entry }

	if err := s.Explain(&b, "json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}

	m := map[string]entry{}
	for _, e := range all.Settings {
		m[e.Key] = e
	}

	return m
}

func TestKeys(t *testing.T) {
	keys := map[string]config.Key{}
	for _, k := range config.Keys() {
		if _, ok := keys[k.Name]; ok {
			t.Errorf("%s is there twice", k.Name)
		}
		keys[k.Name] = k
	}

	t.Run("every_field_of_the_library_has_a_key_that_sets_it", func(t *testing.T) {
		samples := map[string]string{"integer": "7", "number": "7.5", "duration": "7s", "durations": "7s,8s",
			"labels": "a=b", "text": "x"}
		special := map[string]string{"rank": "priority", "renewInterval": "2s", "heartbeatInterval": "2s",
			"startupJitterMin": "1s"}
		inverted := map[string]string{"Ineligible": "eligible", "EpochFencingOff": "epochFencingEnabled",
			"ContentionDetectionOff": "contentionDetectionEnabled"}
		for field := range reflect.TypeFor[regent.Config]().Fields() {
			name := string(unicode.ToLower(rune(field.Name[0]))) + field.Name[1:]
			name = cmp.Or(inverted[field.Name], name)
			k := keys[name]
			if k.Name == "" {
				t.Errorf("no key %s", name)
				continue
			}

			value := cmp.Or(special[name], samples[k.Type()], fmt.Sprint(k.Default("fleet") != "true"))
			s := loaded{args: "--profile fleet --" + k.Flag() + "=" + value}.must(t)
			got, before := reflect.ValueOf(s.Regent).FieldByIndex(field.Index), reflect.ValueOf(
				regent.Fleet()).FieldByIndex(field.Index)
			if reflect.DeepEqual(got.Interface(), before.Interface()) {
				t.Errorf("%s %s did not change %s", name, value, field.Name)
			}
			if e := shown(t, s)[name]; e.Value != value || e.Origin != "flag --"+k.Flag() {
				t.Errorf("%s %s is shown as %+v", name, value, e)
			}
		}
	})

	t.Run("names_follow_from_the_key", func(t *testing.T) {
		if k := keys["leaseDuration"]; k.Flag() != "lease-duration" || k.Variable() != "REGENT_LEASE_DURATION" ||
			k.Default("lock") != "30s" {
			t.Errorf("got %s, %s, %s", k.Flag(), k.Variable(), k.Default("lock"))
		}
		if k := keys["tlsCert"]; k.Flag() != "tls-cert" || k.Variable() != "REGENT_TLS_CERT" {
			t.Errorf("got %s, %s", k.Flag(), k.Variable())
		}
	})

	t.Run("the_file_takes_every_key_but_itself", func(t *testing.T) {
		var b strings.Builder
		for _, k := range config.Keys() {
			if k.Name != "config" && k.Name != "advertise" {
				fmt.Fprintf(&b, "%s: %q\n", k.Name, k.Default("fleet"))
			}
		}

		l := loaded{yaml: strings.Replace(b.String(), `profile: "cluster"`, "profile: fleet", 1)}
		if s := l.must(t); !reflect.DeepEqual(s.Regent, regent.Fleet()) {
			t.Errorf("got %+v", s.Regent)
		}
	})

	for _, format := range []string{"text", "markdown"} {
		t.Run("help_as_"+format+"_names_every_key_flag_variable_and_default", func(t *testing.T) {
			var b bytes.Buffer
			if err := config.WriteHelp(&b, format); err != nil {
				t.Fatal(err)
			}

			text := strings.Join(strings.Fields(b.String()), " ") // lines are wrapped
			for _, k := range config.Keys() {
				for _, want := range []string{k.Name, "--" + k.Flag(), k.Variable(), k.Doc, k.Default("lock")} {
					if !strings.Contains(text, want) {
						t.Errorf("no %q", want)
					}
				}
			}
		})
	}
}

func TestExplain(t *testing.T) {
	l := loaded{args: "--token hush --heartbeat-interval 2s",
		env: "REGENT_STORE=redis://ada:hush@cache:6379/0?password=hush", yaml: "\ncluster_coordinator: " +
			"true\nlabels: {a: b}"}
	s := l.must(t)
	var text, js bytes.Buffer
	if err := s.Explain(&text, "text"); err != nil {
		t.Fatal(err)
	}
	if err := s.Explain(&js, "json"); err != nil {
		t.Fatal(err)
	}

	t.Run("every_key_has_a_line_with_its_value_and_origin", func(t *testing.T) {
		lines := map[string]string{}
		for line := range strings.Lines(text.String()) {
			f := strings.Fields(line)
			if lines[f[0]] == "" { // of the warnings the first
				lines[f[0]] = strings.Join(f[1:], " ")
			}
		}

		for key, want := range map[string]string{
			"store":         "redis://ada:***@cache:6379/0?password=*** variable REGENT_STORE",
			"token":         "(set) flag --token",
			"labels":        "a=b file regent.yaml:3",
			"leaseDuration": "6s profile cluster",
			"renewInterval": "2s follows heartbeatInterval",
			"node":          `"" default`,
			"warning:": "cluster_coordinator (file regent.yaml:2) is deprecated and ignored: the election " +
				"decides; remove it",
		} {
			if lines[key] != want {
				t.Errorf("%s: got %q, want %q", key, lines[key], want)
			}
		}

		for _, k := range config.Keys() {
			if lines[k.Name] == "" {
				t.Errorf("no line for %s", k.Name)
			}
		}
	})

	t.Run("no_secret_is_shown_however_the_settings_are_printed", func(t *testing.T) {
		direct, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}

		for _, out := range []string{text.String(), js.String(), string(direct), fmt.Sprint(s), fmt.Sprintf("%+v", s)} {
			if strings.Contains(out, "hush") {
				t.Errorf("the secret is in %s", out)
			}
		}
	})
}
