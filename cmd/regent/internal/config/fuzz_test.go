package config_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

// FuzzLoad checks that no input makes the loader panic, that the library accepts what the loader accepts, that each
// error has its kind, and that shown values are read again as the same values.
func FuzzLoad(f *testing.F) {
	f.Add("leaseDuration: 6s\nlabels: {a: b}\nrenewBackoff: [1, 2s]", "--profile lock --eligible=false seat",
		"COORDINATOR_TAKEOVER_DELAY=2000")
	f.Add("a: &x [*x]\n<<: *x\n", "--labels a=b --labels c=d -- x", "REGENT_LISTEN=[::1%lo]:0 REGENT_X")
	f.Add("? [a]\n: !!binary b\n---\n%YAML 9", "---x=1 -= --", "REGENT_STORE=redis://:x@y?password=z")
	f.Add("cluster_coordinator: ~\nrank: region:a,b", "--rank region: --token-file f --node *", "=x REGENT_=")
	f.Fuzz(func(t *testing.T, yaml, args, env string) {
		read := func(string) ([]byte, error) { return []byte(yaml), nil }
		s, err := config.Load(append([]string{"--config=f"}, strings.Fields(args)...), strings.Fields(env), read)
		var e *config.Error
		switch {
		case err != nil && !errors.As(err, &e) && !errors.Is(err, config.ErrUsage) && !errors.Is(err, pflag.ErrHelp):
			t.Fatalf("an error of no kind: %v", err)
		case err != nil:
			return
		}

		if err := s.Regent.Validate(); err != nil {
			t.Fatalf("accepted, but %v", err)
		}

		again := []string{"--advertise="}
		for key, e := range shown(t, s) {
			if key != "token" && key != "tokenFile" && key != "advertise" && key != "config" && key != "listen" &&
				key != "store" {
				again = append(again, "--"+flagOf(key)+"="+e.Value)
			}
		}

		s2, err := config.Load(again, nil, read)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		if !reflect.DeepEqual(s.Regent, s2.Regent) || s.Election != s2.Election || s.Node != s2.Node ||
			s.LogLevel != s2.LogLevel {
			t.Fatalf("%+v is read again as %+v", s.Regent, s2.Regent)
		}
	})
}

func flagOf(key string) string {
	for _, k := range config.Keys() {
		if k.Name == key {
			return k.Flag()
		}
	}

	return key
}
