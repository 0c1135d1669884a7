package config_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/memstore"
)

func TestBadValues(t *testing.T) {
	for _, c := range []struct {
		name string
		loaded
		want string // the whole message
	}{
		{"J05_a_negative_jitter", loaded{yaml: "region: eu\nstartupJitterMin: -100"},
			"file regent.yaml:2: startupJitterMin -100ms: startupJitterMin cannot be negative"},
		{"J06_a_jitter_range_upside_down", loaded{yaml: "startupJitterMin: 5000\nstartupJitterMax: 1000"},
			"file regent.yaml:2 and file regent.yaml:1: startupJitterMax 1s: startupJitterMax must be >= " +
				"startupJitterMin (5s)"},
		{"C22_a_duration_that_is_none", loaded{env: "COORDINATOR_TAKEOVER_DELAY=soon"},
			`variable COORDINATOR_TAKEOVER_DELAY: takeoverDelay "soon": takeoverDelay must be a duration, such as ` +
				`1.5s or 500ms, or a number of milliseconds`},
		{"C22_a_duration_beyond_all_bounds", loaded{args: "--takeover-delay 99999999999999999999"},
			`flag --takeover-delay: takeoverDelay "99999999999999999999": takeoverDelay must be a duration, such as ` +
				`1.5s or 500ms, or a number of milliseconds`},
		{"C22_a_boolean_that_is_none", loaded{yaml: "eligible: yes"},
			`file regent.yaml:1: eligible "yes": eligible must be true or false`},
		{"C22_a_boolean_without_a_value", loaded{args: "--eligible="},
			`flag --eligible: eligible "": eligible must be true or false`},
		{"C22_a_number_that_is_none", loaded{args: "--priority 1.5"},
			`flag --priority: priority "1.5": priority must be a whole number`},
		{"C22_an_endless_threshold", loaded{args: "--contention-threshold inf"},
			`flag --contention-threshold: contentionThreshold "inf": contentionThreshold must be a number`},
		{"C22_a_threshold_too_low", loaded{args: "--contention-threshold 1"},
			`flag --contention-threshold: contentionThreshold 1: contentionThreshold must be above 1`},
		{"registers_that_are_removed_too_soon", loaded{args: "--retire-after 5m"},
			`flag --retire-after: retireAfter "5m0s": retireAfter must be at least 10m0s, or 0s for never`},
		{"registers_that_are_removed_before_they_are_used", loaded{yaml: "retireAfter: -1h"},
			`file regent.yaml:1: retireAfter "-1h0m0s": retireAfter must be at least 10m0s, or 0s for never`},
		{"C22_a_backoff_of_nothing", loaded{yaml: "renewBackoff: [1s, 0, 0]"},
			"file regent.yaml:1: renewBackoff [1s 0s 0s]: renewBackoff must hold durations of at least 20ms only"},
		{"C22_a_backoff_that_is_none", loaded{yaml: "renewBackoff: [1s, later]"},
			`file regent.yaml:1: renewBackoff "1s,later": renewBackoff must be durations with commas between, such ` +
				`as 500ms,1s,2s`},
		{"C22_a_backoff_of_lists", loaded{yaml: "renewBackoff: [[1s]]"},
			`file regent.yaml:1: renewBackoff […]: renewBackoff must be a list of durations`},
		{"C22_labels_without_values", loaded{args: "--labels a"},
			`flag --labels: labels "a": labels must be name=value with commas between`},
		{"C22_a_label_given_twice", loaded{yaml: "labels: {a: 1, a: 2}"},
			`file regent.yaml:1: labels "a=1,a=2": labels must name each label once`},
		{"C22_labels_with_commas", loaded{yaml: "labels: {a: 'b,c'}"},
			`file regent.yaml:1: labels {…}: labels must map names to values, without commas in them`},
		{"C22_a_list_where_a_value_belongs", loaded{yaml: "leaseDuration: [6s]"},
			`file regent.yaml:1: leaseDuration […]: leaseDuration cannot be a list`},
		{"C22_a_mapping_where_a_value_belongs", loaded{yaml: "token: {hush: 1}"},
			`file regent.yaml:1: token {…}: token cannot be a mapping`},
		{"C22_a_key_without_a_value", loaded{yaml: "leaseDuration:"},
			`file regent.yaml:1: leaseDuration null: leaseDuration must have a value; leave the key out for the ` +
				`default`},
		{"C22_a_tag", loaded{yaml: "token: !hush hush"},
			`file regent.yaml:1: token with a tag: token must be written without one`},
		{"C22_an_unknown_profile", loaded{args: "--profile large --listen nowhere"},
			`flag --profile: profile "large": profile must be cluster, lock or fleet`},
		{"C22_an_unknown_rank", loaded{args: "--rank seniority --region eu"},
			"flag --rank: rank seniority: rank must be first, lexicographic, priority, latency, or region: followed " +
				"by regions, the best first"},
		{"programs_for_everybody", loaded{yaml: "execPolls: true"},
			`file regent.yaml:1: execPolls "true": execPolls needs token, ` +
				"tokenFile or tlsCA: else every user of this machine could run programs with the rights of the node"},
		{"C22_an_unknown_log_format", loaded{args: "--log-format xml"},
			`flag --log-format: logFormat "xml": logFormat must be text or json`},
		{"C22_an_unknown_log_level", loaded{args: "--log-level loud"},
			`flag --log-level: logLevel "loud": logLevel must be debug, info, warn or error`},
		{"C22_a_lease_shorter_than_the_heartbeat_that_was_given", loaded{args: "--heartbeat-interval 10s"},
			"flag --heartbeat-interval: leaseDuration 6s: leaseDuration less 0.2 % and stopTimeout (1s) leaves " +
				"4.988s, which must be above heartbeatInterval (10s)"},
		{"C22_a_heartbeat_of_nothing_is_refused_alone", loaded{args: "--heartbeat-interval 0"},
			"flag --heartbeat-interval: heartbeatInterval 0s: heartbeatInterval must be at least 20ms"},
		{"a_poll_that_hammers_by_flag", loaded{args: "--election-interval 1ns"},
			"flag --election-interval: electionInterval 1ns: electionInterval must be at least 20ms"},
		{"a_poll_that_hammers_by_variable", loaded{env: "COORDINATOR_ELECTION_INTERVAL=1"},
			"variable COORDINATOR_ELECTION_INTERVAL: electionInterval 1ms: electionInterval must be at least 20ms"},
		{"a_backoff_that_hammers_by_file", loaded{yaml: "renewBackoff: 500ms,1us"},
			"file regent.yaml:1: renewBackoff [500ms 1µs]: renewBackoff must hold durations of at least 20ms only"},
		{"C22_two_intervals_that_must_be_one", loaded{args: "--heartbeat-interval 1s", env: "REGENT_RENEW_INTERVAL=2s"},
			"variable REGENT_RENEW_INTERVAL and flag --heartbeat-interval: renewInterval 2s: renewInterval must " +
				"equal heartbeatInterval (1s), which renews all elections unless ownLease is set"},
		{"C22_a_bad_value_is_not_compared_to_others", loaded{args: "--lease-duration long --heartbeat-interval 10s"},
			`flag --lease-duration: leaseDuration "long": leaseDuration must be a duration, such as 1.5s or 500ms, ` +
				`or a number of milliseconds`},
		{"C22_an_election_of_the_reserved_kind", loaded{args: "--election regent/x"},
			`flag --election: election "regent/x": election must be 1 to 250 bytes of UTF-8 without control ` +
				`characters, and not begin with "regent/"`},
		{"C22_a_node_called_anyone", loaded{args: "--node *"},
			`flag --node: node "*": node must be 1 to 236 bytes of UTF-8 without control characters, and not "*"`},
		{"C22_a_listener_without_a_port", loaded{args: "--listen localhost"},
			`flag --listen: listen "localhost": listen must be host:port, the port a number up to 65535`},
		{"C22_a_listener_beyond_loopback", loaded{args: "--listen :7468"},
			`flag --listen: listen ":7468": listen is beyond loopback, which needs token, tokenFile, or tlsCert and ` +
				`tlsKey; insecure allows it without`},
		{"C22_an_address_for_others_that_is_none", loaded{args: "--advertise 0.0.0.0:1"},
			`flag --advertise: advertise "0.0.0.0:1": advertise must be the host:port at which others reach this node`},
		{"C22_a_token_and_a_token_file", loaded{args: "--token-file token.txt", env: "REGENT_TOKEN=hush"},
			`flag --token-file and variable REGENT_TOKEN: tokenFile "token.txt": tokenFile cannot be combined ` +
				`with token`},
		{"C22_a_token_file_that_is_not_there", loaded{args: "--token-file none.txt --listen :1"},
			`flag --token-file: tokenFile "none.txt": tokenFile cannot be read: open none.txt: file does not exist`},
		{"C22_an_empty_token_file", loaded{args: "--token-file empty.txt"},
			`flag --token-file: tokenFile "empty.txt": tokenFile must not be empty`},
		{"C22_a_token_that_fits_no_header", loaded{yaml: `token: "hush hush"`},
			`file regent.yaml:1: token (set): token must be ASCII without spaces, because it is sent in a header`},
		{"C22_a_certificate_without_its_key", loaded{args: "--tls-cert a.pem"},
			`flag --tls-cert: tlsCert "a.pem": tlsCert needs tlsKey`},
		{"C22_a_key_without_its_certificate", loaded{args: "--tls-key a.pem"},
			`flag --tls-key: tlsKey "a.pem": tlsKey needs tlsCert`},
		{"C22_a_store_that_nobody_knows", loaded{args: "--store mysql://ada:hush@host/db"},
			`flag --store: store "mysql://ada:***@host/db": store must begin with sqlite:, memory:, redis://, ` +
				`rediss://, postgres://, postgresql://, etcd://, nats://, kube:// or s3://, ` +
				`the stores that this binary has`},
		{"C22_an_embedded_store_without_a_file", loaded{args: "--store sqlite:"},
			`flag --store: store "sqlite:": store must name a file, as in sqlite:regent.db`},
		{"C22_a_file_that_is_not_there", loaded{args: "--config none.yaml"},
			`flag --config: config "none.yaml": config cannot be read: open none.yaml: file does not exist`},
		{"C22_two_bad_values_are_both_named", loaded{args: "--takeover-delay -1", yaml: "priority: high"},
			"file regent.yaml:1: priority \"high\": priority must be a whole number\nflag --takeover-delay: " +
				"takeoverDelay -1ms: takeoverDelay cannot be negative"},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			s, err := c.load()
			if err == nil {
				t.Fatalf("accepted: %v", s)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}

			var e *config.Error
			var ce *regent.ConfigError
			if !errors.As(err, &e) || !errors.As(err, &ce) {
				t.Errorf("%T wraps no config.Error or no regent.ConfigError", err)
			}
		})
	}
}

func TestGoodValues(t *testing.T) {
	for _, c := range []struct {
		name string
		loaded
	}{
		{"J07_no_jitter", loaded{yaml: "profile: fleet\nstartupJitterMin: 0\nstartupJitterMax: 0"}},
		{"a_listener_beyond_loopback_with_a_token", loaded{args: "--listen :7468 --token t"}},
		{"a_listener_beyond_loopback_with_a_token_file", loaded{args: "--listen :7468 --token-file token.txt"}},
		{"a_listener_beyond_loopback_with_TLS", loaded{args: "--listen :7468 --tls-cert a --tls-key b"}},
		{"a_listener_beyond_loopback_that_may_be_insecure", loaded{args: "--listen host.example:7468 --insecure"}},
		{"every_kind_of_loopback", loaded{args: "--listen [::1]:0"}},
		{"an_empty_file", loaded{yaml: "# nothing\n"}},
		{"an_empty_document", loaded{yaml: "---\n"}},
		{"an_alias", loaded{yaml: "heartbeatInterval: &a 2s\nrenewInterval: *a"}},
		{"no_backoff", loaded{yaml: "renewBackoff: []"}},
	} {
		t.Run(c.name+"_is_accepted", func(t *testing.T) { c.must(t) })
	}

	t.Run("J07_no_jitter_overrides_the_profile", func(t *testing.T) {
		if s := (loaded{args: "--profile fleet --startup-jitter-max 0"}).must(t); s.Regent.StartupJitterMax != 0 {
			t.Errorf("got %v", s.Regent.StartupJitterMax)
		}
	})

	t.Run("a_token_file_gives_the_token", func(t *testing.T) {
		if s := (loaded{args: "--token-file token.txt"}).must(t); s.Token != "from-a-file" ||
			s.Origin("token") != "follows tokenFile" {
			t.Errorf("got %q from %s", s.Token, s.Origin("token"))
		}
	})

	t.Run("text_in_the_file_is_kept_as_it_is_written", func(t *testing.T) {
		if s := (loaded{yaml: "region: 010\nnode: true\nlabels: {zone: 1.50}"}).must(t); s.Regent.Region != "010" ||
			s.Node != "true" || s.Regent.Labels["zone"] != "1.50" {
			t.Errorf("got %v", s)
		}
	})

	t.Run("names_are_checked_as_the_library_does", func(t *testing.T) {
		long := strings.Repeat("x", 236)
		for _, node := range []string{"*", "a\nb", long + "x", long, "a", "ö"} {
			for _, election := range []string{"regent/", "regent/x", "a\tb", long + strings.Repeat("x", 15), long,
				"a:b/c"} {
				_, err := config.Load([]string{"--node", node, "--election", election}, nil, files(nil))
				m := &regent.Member{ID: node, Store: memstore.New()}
				lib := m.Lead(t.Context(), election, func(context.Context, regent.Term) error { return nil })
				if (lib == nil) != (err == nil) {
					t.Errorf("node %q, election %q: the library says %v, config says %v", node, election, lib, err)
				}
			}
		}
	})
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"an_unknown_key", "region: eu\nlease_duratoin: 9s",
			`file regent.yaml:2: unknown key "lease_duratoin", did you mean leaseDuration?`},
		{"an_unknown_key_that_is_like_no_other", "ttl: 9s", `file regent.yaml:1: unknown key "ttl"`},
		{"a_key_that_is_there_twice", "region: eu\n\nregion: us",
			`file regent.yaml:3: key region is already set in line 1`},
		{"a_file_that_names_a_file", "config: other.yaml",
			`file regent.yaml:1: key config cannot be in the file: use --config or REGENT_CONFIG`},
		{"a_key_that_is_no_word", "[a]: b", `file regent.yaml:1: a key must be a word`},
		{"a_list", "- region", "file regent.yaml:1: must be a mapping: a key, a colon, a space and a value in " +
			"each line"},
		{"a_second_document", "region: eu\n---\nregion: us",
			"file regent.yaml:2: must be one YAML document, and there are more"},
		{"a_colon_too_many", "region: eu\nnode: a: b\n",
			"file regent.yaml:2: not YAML: mapping values are not allowed in this context"},
		{"a_bracket_too_many", "# a\nregion: eu\n}\nnode: a\n",
			"file regent.yaml:3: not YAML: did not find expected key"},
		{"a_list_that_does_not_end", "region: eu\nrenewBackoff: [1s\nnode: a\n",
			"file regent.yaml:2: not YAML: did not find expected ',' or ']'"},
		{"a_secret_that_looks_like_an_alias", "region: eu\ntoken: *hush\n",
			"file regent.yaml:2: not YAML: a value that begins with * must be quoted"},
		{"what_is_no_UTF-8", "region: eu\nnode: \xc3\x28\n",
			"file regent.yaml:2: not YAML: invalid trailing UTF-8 octet"},
	} {
		t.Run(c.name+"_is_refused_with_file_and_line", func(t *testing.T) {
			s, err := loaded{yaml: c.yaml}.load()
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, %v", s, err)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}

	t.Run("all_mistakes_are_listed_one_per_line", func(t *testing.T) {
		_, err := loaded{yaml: "ttl: 1\nstartupJitterMin: -100\nstore: mysql:hush", args: "--log-level loud"}.load()
		if err == nil || strings.Count(err.Error(), "\n") != 3 {
			t.Errorf("got %v", err)
		}
	})
}
