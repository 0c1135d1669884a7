package config_test

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

// TestExampleFile loads the example of each profile, as it is and with every default written out.
func TestExampleFile(t *testing.T) {
	for _, profile := range config.Profiles() {
		var b bytes.Buffer
		if err := config.WriteExample(&b, profile); err != nil {
			t.Fatal(err)
		}

		want := loaded{args: "--profile " + profile}.must(t)
		written := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(b.String(), "$1")
		written = regexp.MustCompile(`(?m)^#  `).ReplaceAllString(written, "  ")
		for name, text := range map[string]string{"as_it_is": b.String(), "written_out": written} {
			t.Run(profile+"_"+name, func(t *testing.T) {
				want := *want
				if strings.Contains(text, "\nregister: false") && profile == "lock" { // polls need register
					text = strings.Replace(text, "\nregister: false", "\nregister: true", 1)
					want.Regent.Register = true
				}
				got := loaded{yaml: text}.must(t)
				if !reflect.DeepEqual(got.Regent, want.Regent) || got.Election != want.Election ||
					got.Profile != profile || len(got.Warnings) != 0 {
					t.Errorf("got %+v\nwant %+v\n%q", got.Regent, want.Regent, got.Warnings)
				}
				if n := len(got.Polls) + len(got.Duties); (n == 2) != (name == "written_out") {
					t.Errorf("%d polls and duties", n)
				}
			})
		}
	}

	if err := config.WriteExample(&bytes.Buffer{}, "large"); err == nil {
		t.Error("an unknown profile is accepted")
	}
}
