package config_test

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
)

const ms = time.Millisecond

// files returns a function that reads files from memory.
func files(contents map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if text, ok := contents[name]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
}

// loaded is the input of a case: arguments and variables with spaces between, and a file that is passed as --config
// unless it is empty.
type loaded struct{ args, env, yaml string }

func (l loaded) load() (*config.Settings, error) {
	args := strings.Fields(l.args)
	if l.yaml != "" {
		args = append([]string{"--config", "regent.yaml"}, args...)
	}
	return config.Load(args, strings.Fields(l.env),
		files(map[string]string{"regent.yaml": l.yaml, "token.txt": "from-a-file\n", "empty.txt": "\n"}))
}

func (l loaded) must(t *testing.T) *config.Settings {
	t.Helper()
	s, err := l.load()
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func TestProfiles(t *testing.T) {
	for name, want := range map[string]struct {
		config   regent.Config
		election string
	}{
		"cluster": {regent.Cluster(), "coordinator"}, "lock": {regent.Lock(), "stargate:leader"},
		"fleet": {regent.Fleet(), "coordinator"},
	} {
		t.Run("J14_no_jitter_configured_is_the_default_of_profile_"+name, func(t *testing.T) {
			s := loaded{args: "--profile " + name}.must(t)
			if !reflect.DeepEqual(s.Regent, want.config) || s.Election != want.election {
				t.Errorf("got %+v and %s, want %+v and %s", s.Regent, s.Election, want.config, want.election)
			}
			if got := s.Origin("startupJitterMax"); got != "profile "+name {
				t.Errorf("startupJitterMax is from %q", got)
			}
		})
	}

	t.Run("J14_a_store_in_a_bucket_without_a_named_profile_is_profile_fleet", func(t *testing.T) {
		for _, l := range []loaded{
			{args: "--store s3://bucket"}, {env: "REGENT_STORE=s3://bucket"}, {yaml: "store: s3://bucket"},
		} {
			s := l.must(t)
			if s.Profile != "fleet" || !reflect.DeepEqual(s.Regent, regent.Fleet()) ||
				s.Origin("profile") != "follows store" || s.Origin("startupJitterMax") != "profile fleet" {
				t.Errorf("%+v: profile %s, which %s", l, s.Profile, s.Origin("profile"))
			}
		}
		for _, l := range []loaded{
			{args: "--store s3://bucket --profile cluster"},
			{args: "--store s3://bucket", env: "REGENT_PROFILE=cluster"},
			{args: "--store redis://host", yaml: "store: s3://bucket"},
		} {
			if s := l.must(t); s.Profile != "cluster" || s.Regent.StartupJitterMax != 0 {
				t.Errorf("%+v: profile %s, which %s", l, s.Profile, s.Origin("profile"))
			}
		}
	})

	t.Run("nothing_at_all_is_the_profile_cluster_and_the_embedded_store", func(t *testing.T) {
		s := loaded{}.must(t)
		if s.Profile != "cluster" || s.Store != "sqlite:regent.db" || s.Listen != "127.0.0.1:7468" ||
			s.Advertise != s.Listen ||
			s.Node != "" || !s.Reaper || s.Insecure || s.LogFormat != "text" || s.Origin("store") != "default" ||
			len(s.Warnings) > 0 {
			t.Errorf("got %v", s)
		}
	})

	t.Run("C01_a_node_is_eligible_unless_set_otherwise", func(t *testing.T) {
		if (loaded{}).must(t).Regent.Ineligible ||
			(loaded{env: "COORDINATOR_ELIGIBLE=true"}).must(t).Regent.Ineligible {
			t.Error("not eligible")
		}
	})

	t.Run("C02_COORDINATOR_ELIGIBLE_false_makes_it_ineligible", func(t *testing.T) {
		if !(loaded{env: "COORDINATOR_ELIGIBLE=false"}).must(t).Regent.Ineligible {
			t.Error("eligible")
		}
	})
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name string
		loaded
		want   time.Duration
		origin string
	}{
		{"the_profile_is_last", loaded{}, time.Second, "profile cluster"},
		{"the_file_beats_the_profile", loaded{yaml: "# delays\ntakeoverDelay: 3s\n"}, 3 * time.Second,
			"file regent.yaml:2"},
		{"a_variable_beats_the_file", loaded{yaml: "takeoverDelay: 3s", env: "REGENT_TAKEOVER_DELAY=4s"},
			4 * time.Second, "variable REGENT_TAKEOVER_DELAY"},
		{"a_flag_beats_all", loaded{yaml: "takeoverDelay: 3s", env: "REGENT_TAKEOVER_DELAY=4s",
			args: "--takeover-delay=5s"}, 5 * time.Second, "flag --takeover-delay"},
		{"a_flag_may_be_two_words", loaded{args: "--takeover-delay 5s"}, 5 * time.Second, "flag --takeover-delay"},
		{"a_bad_value_that_is_overridden_does_no_harm",
			loaded{yaml: "takeoverDelay: soon", args: "--takeover-delay 5s"}, 5 * time.Second, "flag --takeover-delay"},
		{"an_empty_variable_counts_as_not_set", loaded{env: "REGENT_TAKEOVER_DELAY="}, time.Second, "profile cluster"},
		{"C13_COORDINATOR_TAKEOVER_DELAY_2000_is_two_seconds", loaded{env: "COORDINATOR_TAKEOVER_DELAY=2000"},
			2 * time.Second, "variable COORDINATOR_TAKEOVER_DELAY"},
		{"C13_and_beats_the_file", loaded{env: "COORDINATOR_TAKEOVER_DELAY=2000", yaml: "takeoverDelay: 3s"},
			2 * time.Second, "variable COORDINATOR_TAKEOVER_DELAY"},
		{"a_number_in_the_file_is_milliseconds", loaded{yaml: "takeoverDelay: 2500"}, 2500 * ms, "file regent.yaml:1"},
		{"a_fraction_is_milliseconds_too", loaded{args: "--takeover-delay 0.5"}, ms / 2, "flag --takeover-delay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.must(t)
			if got := s.Regent.TakeoverDelay; got != c.want || s.Origin("takeoverDelay") != c.origin {
				t.Errorf("got %v from %s, want %v from %s", got, s.Origin("takeoverDelay"), c.want, c.origin)
			}
			if s.Given("takeoverDelay") != !strings.HasPrefix(c.origin, "profile") {
				t.Errorf("given: %v", s.Given("takeoverDelay"))
			}
		})
	}

	t.Run("the_profile_may_come_from_any_of_them", func(t *testing.T) {
		l := loaded{yaml: "profile: lock"}
		if s := l.must(t); s.Profile != "lock" || s.Regent.LeaseDuration != 30*time.Second {
			t.Errorf("file: %v", s)
		}

		l.env = "REGENT_PROFILE=fleet"
		if s := l.must(t); s.Profile != "fleet" || s.Regent.LeaseDuration != 20*time.Second {
			t.Errorf("variable: %v", s)
		}

		l.args = "--profile cluster"
		if s := l.must(t); s.Profile != "cluster" || s.Regent.LeaseDuration != 6*time.Second {
			t.Errorf("flag: %v", s)
		}
	})

	t.Run("a_variable_may_name_the_file", func(t *testing.T) {
		s, err := config.Load(nil, []string{"REGENT_CONFIG=a.yaml"}, files(map[string]string{"a.yaml": "region: eu"}))
		if err != nil || s.Regent.Region != "eu" || s.File != "a.yaml" {
			t.Errorf("got %v, %v", s, err)
		}
	})

	t.Run("what_is_no_flag_is_left", func(t *testing.T) {
		s := loaded{args: "--eligible=false seat --preempt -- sleep --region x"}.must(t)
		if want := []string{"seat", "sleep", "--region", "x"}; !slices.Equal(s.Args, want) ||
			!s.Regent.Ineligible ||
			!s.Regent.Preempt {
			t.Errorf("got %q, %+v", s.Args, s.Regent)
		}
	})
}

func TestFollowing(t *testing.T) {
	for _, c := range []struct {
		name string
		loaded
		key, want, origin string
	}{
		{"the_poll_maximum_is_the_poll_in_cluster", loaded{env: "COORDINATOR_ELECTION_INTERVAL=2000"},
			"electionIntervalMax", "2s", "follows electionInterval"},
		{"the_poll_maximum_is_the_poll_in_fleet", loaded{args: "--profile fleet --election-interval 9s"},
			"electionIntervalMax", "9s", "follows electionInterval"},
		{"the_poll_maximum_stays_in_lock", loaded{args: "--profile lock --election-interval 9s"}, "electionIntervalMax",
			"1m0s", "profile lock"},
		{"but_is_never_below_the_poll", loaded{args: "--profile lock --election-interval 90s"}, "electionIntervalMax",
			"1m30s", "follows electionInterval"},
		{"a_poll_maximum_that_is_given_stays", loaded{args: "--election-interval 2s --election-interval-max 8s"},
			"electionIntervalMax", "8s", "flag --election-interval-max"},
		{"the_renewal_is_the_heartbeat", loaded{args: "--heartbeat-interval 2s"}, "renewInterval", "2s",
			"follows heartbeatInterval"},
		{"the_heartbeat_is_the_renewal", loaded{args: "--renew-interval 2s"}, "heartbeatInterval", "2s",
			"follows renewInterval"},
		{"but_not_with_a_lease_of_its_own", loaded{args: "--profile lock --heartbeat-interval 2s"}, "renewInterval",
			"10s", "profile lock"},
		{"a_lock_without_own_lease_is_renewed_by_the_heartbeat", loaded{args: "--profile lock --own-lease=false"},
			"renewInterval", "5s", "follows heartbeatInterval"},
		{"the_worker_timeout_is_the_lease_in_cluster", loaded{args: "--lease-duration 9s"}, "workerTimeout", "9s",
			"follows leaseDuration"},
		{"the_worker_timeout_stays_in_lock", loaded{args: "--profile lock --lease-duration 60s"}, "workerTimeout",
			"20s", "profile lock"},
		{"a_worker_timeout_that_is_given_stays", loaded{args: "--lease-duration 9s --worker-timeout 7s"},
			"workerTimeout", "7s", "flag --worker-timeout"},
		{"advertise_is_that_of_listen", loaded{args: "--listen 127.0.0.1:1"}, "advertise", "127.0.0.1:1",
			"follows listen"},
		{"unless_it_is_set", loaded{args: "--advertise a.example:80"}, "advertise", "a.example:80", "flag --advertise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.must(t)
			if got := shown(t, s)[c.key]; got.Value != c.want || got.Origin != c.origin {
				t.Errorf("got %+v, want %s from %s", got, c.want, c.origin)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name string
		loaded
		want string
	}{
		{"C18_the_old_cluster_coordinator_key_is_ignored", loaded{yaml: "cluster_coordinator: true"}, ""},
		{"C18_the_old_key_is_ignored_whatever_it_holds", loaded{yaml: "region: eu\nclusterCoordinator: {a: [1]}"}, ""},
		{"C19_and_warned_about_once", loaded{yaml: "region: eu\ncluster_coordinator: true\nclusterCoordinator: false"},
			"cluster_coordinator (file regent.yaml:2) is deprecated and ignored: the election decides; remove it"},
		{"two_variables_for_one_key_that_differ",
			loaded{env: "COORDINATOR_TAKEOVER_DELAY=2000 REGENT_TAKEOVER_DELAY=3s"},
			"variable COORDINATOR_TAKEOVER_DELAY=2000 is ignored: REGENT_TAKEOVER_DELAY=3s wins"},
		{"a_variable_that_is_like_no_other", loaded{env: "REGENT_OF_OUR_TEAM=9s"},
			"variable REGENT_OF_OUR_TEAM is not known and ignored"},
		{"a_port_that_somebody_meant_to_set", loaded{env: "REGENT_PORT=8080"},
			"variable REGENT_PORT is not known and ignored"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.must(t)
			if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], c.want) {
				t.Errorf("got %q, want one with %q", s.Warnings, c.want)
			}

			plain := loaded{yaml: "region: " + s.Regent.Region}
			if strings.HasPrefix(c.name, "C1") && s.Regent.Region != "" &&
				!reflect.DeepEqual(s.Regent, plain.must(t).Regent) {
				t.Errorf("the old key changed something: %+v", s.Regent)
			}
		})
	}

	for _, c := range []struct {
		name string
		loaded
	}{
		{"two_variables_that_agree_need_no_warning",
			loaded{env: "COORDINATOR_TAKEOVER_DELAY=2000 REGENT_TAKEOVER_DELAY=2s"}},
		{"variables_that_run_sets_need_no_warning",
			loaded{env: "REGENT_ELECTION=seat REGENT_EPOCH=7 REGENT_TERM=X REGENT_NODE=a REGENT_RUN=1"}},
		{"variables_of_a_Service_of_Kubernetes_need_no_warning", loaded{env: "REGENT_SERVICE_HOST=10.0.0.1 " +
			"REGENT_SERVICE_PORT=7468 REGENT_SERVICE_PORT_HTTP=7468 REGENT_PORT=tcp://10.0.0.1:7468 " +
			"REGENT_PORT_7468_TCP=tcp://10.0.0.1:7468 REGENT_PORT_7468_TCP_PROTO=tcp REGENT_PORT_7468_TCP_PORT=7468 " +
			"REGENT_PORT_7468_TCP_ADDR=fd00::1 REGENT_LEADER_SERVICE_HOST=fd00::1 REGENT_LEADER_SERVICE_PORT=7468"}},
		{"an_empty_variable_is_not_set", loaded{env: "REGENT_STROE="}},
		{"a_reachable_address_needs_no_warning",
			loaded{args: "--listen 0.0.0.0:1 --advertise h:1", env: "REGENT_TOKEN=0123456789abcdef"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s := c.must(t); len(s.Warnings) > 0 {
				t.Errorf("got %q", s.Warnings)
			}
		})
	}
}

// TestMistypedVariables checks that a node refuses a variable that is nearly one of its own, and names that one.
func TestMistypedVariables(t *testing.T) {
	for env, want := range map[string]string{
		"REGENT_LEASE_DURATOIN=9s": "variable REGENT_LEASE_DURATOIN: is not known, did you mean REGENT_LEASE_DURATION?",
		"REGENT_STROE=redis://x:1": "variable REGENT_STROE: is not known, did you mean REGENT_STORE?",
		"REGENT_TOKENFILE=/x":      "variable REGENT_TOKENFILE: is not known, did you mean REGENT_TOKEN_FILE?",
		"REGENT_ADR=x:1":           "variable REGENT_ADR: is not known, did you mean REGENT_ADDR?",
	} {
		t.Run(env, func(t *testing.T) {
			_, err := config.Load(nil, []string{env}, files(nil))
			var refused *config.Error
			if !errors.As(err, &refused) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}

			set := pflag.NewFlagSet("status", pflag.ContinueOnError)
			s, err := config.Flags(set, "store").LoadClient([]string{env}, files(nil))
			if err != nil || len(s.Mistyped) != 1 || s.Mistyped[0] != want {
				t.Errorf("a command that asks: %v, %q, want %s", err, s.Mistyped, want)
			}
		})
	}

	t.Run("with_another_error_both_are_shown", func(t *testing.T) {
		_, err := config.Load(nil, []string{"REGENT_STROE=x", "REGENT_LEASE_DURATION=soon"}, files(nil))
		if err == nil || !strings.Contains(err.Error(), "REGENT_STROE") || !strings.Contains(err.Error(), "soon") {
			t.Error(err)
		}
	})
}

func TestFlags(t *testing.T) {
	subset := func(args ...string) (*config.Settings, string, error) {
		set := pflag.NewFlagSet("status", pflag.ContinueOnError)
		output := set.StringP("output", "o", "text", "output")
		source := config.Flags(set, "store", "election")

		if err := config.Parse(set, args); err != nil {
			return nil, "", err
		}
		s, err := source.Load([]string{"REGENT_REGION=eu"}, files(nil))

		return s, *output, err
	}

	t.Run("a_command_can_take_some_keys_beside_flags_of_its_own", func(t *testing.T) {
		s, output, err := subset("-o", "json", "--store", "memory:", "seat")
		if err != nil || output != "json" || s.Store != "memory:" || s.Regent.Region != "eu" ||
			!slices.Equal(s.Args, []string{"seat"}) {
			t.Errorf("got %v, %s, %v", s, output, err)
		}
	})

	t.Run("a_key_that_it_does_not_take_is_an_unknown_flag", func(t *testing.T) {
		if _, _, err := subset("--lease-duration", "9s"); !errors.Is(err, config.ErrUsage) {
			t.Errorf("got %v", err)
		}
	})

	for _, c := range []struct{ name, args, want string }{
		{"an_unknown_flag_is_named_with_the_nearest", "--lease-duratoin 9s",
			"unknown flag --lease-duratoin, did you mean --lease-duration?"},
		{"a_flag_without_its_value", "--listen", "flag --listen needs a value"},
		{"a_malformed_flag_shows_no_value", "---token=hush", "bad flag syntax: ---token: see"},
		{"a_long_flag_with_one_hyphen", "-listen :1", "unknown flag -listen, did you mean --listen?"},
		{"a_boolean_as_two_words", "--eligible false --preempt", "write --eligible=false"},
	} {
		t.Run(c.name+"_is_a_usage_error", func(t *testing.T) {
			_, err := loaded{args: c.args}.load()
			if !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}

	t.Run("help_is_asked_for_not_wrong", func(t *testing.T) {
		_, err := loaded{args: "--help"}.load()
		if !errors.Is(err, pflag.ErrHelp) || errors.Is(err, config.ErrUsage) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("labels_may_be_given_one_by_one", func(t *testing.T) {
		s := loaded{args: "--labels a=1 --labels b=2,c=x=y"}.must(t)
		if want := map[string]string{"a": "1", "b": "2", "c": "x=y"}; !reflect.DeepEqual(s.Regent.Labels, want) {
			t.Errorf("got %v", s.Regent.Labels)
		}
	})
}
