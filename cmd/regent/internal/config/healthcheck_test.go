package config_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

func TestHealthCheckKeys(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"neither_a_command_nor_a_URL": {"{interval: 1s}", "healthCheck (set): healthCheck must have command or url"},
		"both": {"{command: [true], url: 'http://u:hush@h/?k=hush'}",
			`healthCheck.url "http://***@h/?***": healthCheck.url cannot be combined with healthCheck.command`},
		"no_mapping": {"[true]", "healthCheck (set): healthCheck must be a mapping of keys such as command or url, " +
			"interval, timeout and failures"},
		"an_unknown_key": {"{comand: [true]}", "unknown key healthCheck.comand, did you mean command?"},
		"a_key_twice": {"{url: 'http://a', url: 'http://b'}",
			"healthCheck.url (set): healthCheck.url must be set only once"},
		"a_command_line": {"{command: sh -c true}",
			"healthCheck.command (set): healthCheck.command must be a list of words, " +
				"as in [pg_isready, -q]: there is no shell that would split it"},
		"an_empty_command": {"{command: []}", "healthCheck.command []: healthCheck.command must name a program"},
		"a_relative_path": {"{command: [bin/check]}",
			`healthCheck.command "bin/check": healthCheck.command must begin with ` +
				"an absolute path, or the name of a program without a directory"},
		"a_NUL_byte": {`{command: [sh, "a\0"]}`,
			"healthCheck.command (set): healthCheck.command must not hold a NUL byte"},
		"no_URL": {"{url: 'localhost:80'}",
			`healthCheck.url "localhost:80": healthCheck.url must be a URL that begins with ` +
				"http:// or https:// and names a host"},
		"an_empty_value": {"{command: [true], interval: }",
			"healthCheck.interval null: healthCheck.interval must have a " +
				"value; leave the key out for the default"},
		"no_duration": {"{command: [true], interval: often}",
			`healthCheck.interval "often": healthCheck.interval must be ` +
				"a duration, such as 1.5s or 500ms, or a number of milliseconds"},
		"too_often": {"{command: [true], interval: 10ms}",
			"healthCheck.interval 10ms: healthCheck.interval must be 100ms to 1h0m0s"},
		"too_seldom": {"{command: [true], interval: 2h}",
			"healthCheck.interval 2h0m0s: healthCheck.interval must be 100ms to 1h0m0s"},
		"no_timeout": {"{command: [true], timeout: 0}",
			"healthCheck.timeout 0s: healthCheck.timeout must be positive, and at most healthCheck.interval (5s)"},
		"a_long_one": {"{command: [true], timeout: 6s}",
			"healthCheck.timeout 6s: healthCheck.timeout must be positive, and at most healthCheck.interval (5s)"},
		"no_failures": {"{command: [true], failures: 0}",
			"healthCheck.failures 0: healthCheck.failures must be 1 to 100"},
		"half_of_one": {"{command: [true], failures: 0.5}",
			`healthCheck.failures "0.5": healthCheck.failures must be a whole number`},
		"too_many": {"{command: [true], failures: 101}",
			"healthCheck.failures 101: healthCheck.failures must be 1 to 100"},
		"a_tagged_one": {"{url: !secret x}", "healthCheck.url with a tag: healthCheck.url must be written without one"},
	} {
		t.Run("N01_"+name+"_is_refused", func(t *testing.T) {
			s, err := loaded{yaml: "region: eu\nhealthCheck: " + c.yaml}.load()
			var e *config.Error
			if !errors.As(err, &e) || err.Error() != "file regent.yaml:2: "+c.want {
				t.Errorf("got  %v, %v\nwant %s", s, err, c.want)
			}
		})
	}

	t.Run("N01_missing_keys_have_defaults", func(t *testing.T) {
		for yaml, want := range map[string]config.HealthCheck{
			"{command: true}": {Command: []string{"true"}, Interval: 5 * time.Second, Timeout: 2 * time.Second,
				Failures: 2},
			"{command: [sh, -c, exit], interval: 1s}": {Command: []string{"sh", "-c", "exit"}, Interval: time.Second,
				Timeout: time.Second, Failures: 2},
			"{url: 'http://h/', interval: 1500, timeout: 1000, failures: 1}": {URL: "http://h/",
				Interval: 1500 * time.Millisecond, Timeout: time.Second, Failures: 1},
		} {
			s, err := loaded{yaml: "healthCheck: " + yaml}.load()
			if err != nil || !reflect.DeepEqual(*s.HealthCheck, want) {
				t.Errorf("%s: %v, %+v", yaml, err, s)
			}
		}
		if s, err := (loaded{yaml: "healthCheck:"}).load(); err != nil || s.HealthCheck != nil {
			t.Errorf("empty: %v, %v", s, err)
		}
	})

	t.Run("N01_it_is_explained_without_secrets", func(t *testing.T) {
		s, err := loaded{yaml: "healthCheck: {command: [psql, --password=hush]}"}.load()
		if err != nil || strings.Contains(s.String(), "hush") ||
			!strings.Contains(s.String(), "command psql, every 5s, timeout 2s, unhealthy after 2 failures") {
			t.Errorf("%v, %v", s, err)
		}
	})

	t.Run("N01_it_can_be_changed_and_removed_but_not_added_while_a_node_runs", func(t *testing.T) {
		load := func(yaml string) *config.Settings {
			s, err := loaded{yaml: yaml}.load()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		without := load("region: eu")
		with := load("region: eu\nhealthCheck: {command: true}")
		other := load("region: eu\nhealthCheck: {command: false}")
		if keys := without.Changed(with); !reflect.DeepEqual(keys, []string{"healthCheck"}) {
			t.Errorf("added: %v", keys)
		}
		if keys := append(with.Changed(other), with.Changed(without)...); len(keys) > 0 {
			t.Errorf("changed or removed: %v", keys)
		}
	})
}
