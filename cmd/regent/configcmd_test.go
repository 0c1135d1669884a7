package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCommand(t *testing.T) {
	dir := t.TempDir()
	good := writeFile(t, filepath.Join(dir, "good.yaml"), "store: sqlite:"+dir+"/x.db\nleaseDuration: 9s\n")
	bad := writeFile(t, filepath.Join(dir, "bad.yaml"), "leaseDuratoin: 9s\n")

	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in the output, or in the error
	}{
		{"a_good_file_can_be_used", []string{"check", "--config", good}, 0, "can be used: election coord"},
		{"a_bad_key_is_78_with_the_nearest", []string{"check", "--config", bad}, exitConfig,
			"did you mean leaseDuration?"},
		{"a_store_that_cannot_work_is_78", []string{"check", "--store", "sqlite:/no/such/dir/x.db"}, exitConfig,
			"/no/such/dir"},
		{"explain_says_where_a_value_comes_from", []string{"explain", "--config", good}, 0, "good.yaml:2"},
		{"explain_is_json", []string{"explain", "--config", good, "-o", "json"}, 0, `"key": "leaseDuration",`},
		{"explain_is_yaml", []string{"explain", "--config", good, "-o", "yaml"}, 0, "\n  - key: leaseDuration\n"},
		{"check_is_json", []string{"check", "--config", good, "-o", "json"}, 0, `"election": "coordinator",`},
		{"check_is_yaml", []string{"check", "--config", good, "-o", "yaml"}, 0, "election: coordinator\n"},
		{"explain_tells_all_about_a_key", []string{"explain", "leaseDuration", "--config", good}, 0,
			"variable  REGENT_LEASE_DURATION\ndefault   cluster 6s, lock 30s, fleet 20s\n"},
		{"explain_of_an_unknown_key_is_64", []string{"explain", "leaseduratoin"}, exitUsage,
			"did you mean leaseDuration?"},
		{"example_is_a_file", []string{"example", "--profile", "fleet"}, 0, "\n#leaseDuration: 20s\n"},
		{"example_of_an_unknown_profile_is_64", []string{"example", "--profile", "big"}, exitUsage, `profile "big"`},
		{"an_unknown_word_is_64_with_the_nearest", []string{"chek"}, exitUsage, `did you mean "check"?`},
		{"help_has_every_key", nil, 0, "--lease-duration DURATION, REGENT_LEASE_DURATION"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"config"}, c.args...), nil, &out, io.Discard)
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if exitCode(err) != c.code || !strings.Contains(text, c.want) {
				t.Errorf("exit code %d, %s", exitCode(err), text)
			}
		})
	}
}

func TestVersionFormats(t *testing.T) {
	for format, want := range map[string]string{
		"table": "regent " + version() + "\n", "json": `"version": "`, "yaml": "version: ",
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"version", "-o", format}, nil, &out, io.Discard)
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", format, err, out.String())
		}
	}
}
