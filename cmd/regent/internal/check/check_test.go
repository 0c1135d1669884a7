package check_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

// options returns options from pairs of name and value.
func options(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// run makes a valid check.
func run(t *testing.T, kind, target string, pairs ...string) check.Outcome {
	t.Helper()
	return runFor(t, 10*time.Second, kind, target, pairs...)
}

func runFor(t *testing.T, limit time.Duration, kind, target string, pairs ...string) check.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	c := check.Checker{AllowExec: true}
	o, err := c.Run(ctx, kind, target, options(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	if o.Latency <= 0 || len(o.Message) > 500 || o.Message == "" || !utf8.ValidString(o.Message) ||
		strings.ContainsAny(o.Message, "\r\n") {
		t.Errorf("a malformed outcome: %+v", o)
	}

	return o
}

// found compares an outcome with the expected one. The message must contain the expected text.
func found(t *testing.T, o check.Outcome, ok bool, message string) {
	t.Helper()
	if o.OK != ok || !strings.Contains(o.Message, message) {
		t.Errorf("got %v %q, want %v %q", o.OK, o.Message, ok, message)
	}
}

// settles fails if goroutines are left behind.
func settles(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 64<<10)
				t.Fatalf("%d goroutines, and before %d:\n%s", runtime.NumGoroutine(), before,
					stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(time.Millisecond) // there is no event for the end of a goroutine
		}
	})
}

func TestRun(t *testing.T) {
	t.Run("an_unknown_kind_is_an_error", func(t *testing.T) {
		_, err := new(check.Checker).Run(t.Context(), "htpp", "x", nil)
		if !errors.Is(err, check.ErrUnknownKind) {
			t.Error(err)
		}
	})

	t.Run("a_check_that_makes_no_sense_is_an_error_with_all_rules", func(t *testing.T) {
		_, err := new(check.Checker).Run(t.Context(), "tcp", "x", options("send", "x", "exepct", "y"))
		if err == nil || !strings.Contains(err.Error(), "target") ||
			!strings.Contains(err.Error(), "did you mean expect?") {
			t.Error(err)
		}
	})

	t.Run("a_cancelled_check_says_nothing_of_its_target", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("shutting down")
		run := func(ctx context.Context, _ string, _ map[string]string) (check.Outcome, error) {
			cancel(stop)
			return check.Outcome{}, nil
		}
		c := check.Checker{Registered: map[string]check.Func{"mine": run}}
		if o, err := c.Run(ctx, "mine", "x", nil); !errors.Is(err, stop) {
			t.Errorf("%v %v", o, err)
		}

		if o, err := c.Run(ctx, "tcp", "127.0.0.1:1", nil); !errors.Is(err, stop) {
			t.Errorf("%v %v", o, err)
		}
	})

	t.Run("a_registered_kind_runs_and_its_message_is_made_to_fit", func(t *testing.T) {
		run := func(_ context.Context, target string, o map[string]string) (check.Outcome, error) {
			return check.Outcome{OK: true, Message: "a\n\tb\x00\xff" + strings.Repeat("ü", 400),
				Detail: map[string]string{"x": target + "\n" + o["y"]}}, nil
		}
		c := check.Checker{Registered: map[string]check.Func{"mine": run}}
		o, err := c.Run(t.Context(), "mine", "there", options("y", "z"))
		if err != nil || !o.OK || !strings.HasPrefix(o.Message, "a b �ü") || !strings.HasSuffix(o.Message,
			"ü…") ||
			len(o.Message) > 500 || !utf8.ValidString(o.Message) || o.Detail["x"] != "there z" {
			t.Errorf("%v %+v", err, o)
		}
	})

	t.Run("a_registered_kind_cannot_replace_a_built_in_one", func(t *testing.T) {
		run := func(context.Context, string, map[string]string) (check.Outcome, error) {
			return check.Outcome{OK: true}, nil
		}
		c := check.Checker{Registered: map[string]check.Func{"tcp": run}}
		if _, err := c.Run(t.Context(), "tcp", "nonsense", nil); err == nil {
			t.Error("it was run")
		}
		if kinds := c.Kinds(); len(slices.Compact(slices.Clone(kinds))) != len(kinds) {
			t.Error(kinds)
		}
	})

	t.Run("kinds_are_those_that_can_be_run", func(t *testing.T) {
		kinds := new(check.Checker).Kinds()
		if slices.Contains(kinds, "exec") || !slices.Contains(kinds, "http") || !slices.IsSorted(kinds) {
			t.Error(kinds)
		}

		c := check.Checker{AllowExec: true, Registered: map[string]check.Func{"mine": nil}}
		if kinds := c.Kinds(); !slices.Contains(kinds, "exec") || !slices.Contains(kinds, "mine") {
			t.Error(kinds)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		kind, target string
		options      map[string]string
		want         string // keys with spaces between
	}{
		{"http", "http://localhost", nil, ""},
		{"http", "https://[::1]:8443/a?b#c",
			options("method", "POST", "body", "x", "status", "200-299, 404", "header.X-A", "b", "redirects", "false",
				"insecureTLS", "true"), ""},
		{"http", "ftp://localhost", nil, "target"},
		{"http", "http://", nil, "target"},
		{"http", "http://:80", nil, "target"},
		{"http", "http://x:0", nil, "target"},
		{"http", "http://x:99999", nil, "target"},
		{"http", "http:x", nil, "target"},
		{"http", "://", nil, "target"},
		{"http", "http://x", options("method", "get"), "options.method"},
		{"http", "http://x", options("body", "x"), "options.body"},
		{"http", "http://x", options("status", "2xx"), "options.status"},
		{"http", "http://x", options("status", "300-200"), "options.status"},
		{"http", "http://x", options("method", "HEAD", "contains", "x"), "options.contains"},
		{"http", "http://x", options("header.", "x", "header.a b", "x", "header.c", "x\ny"),
			"options.header. options.header.a b options.header.c"},
		{"http", "http://x", options("redirects", "3"), "options.redirects"},
		{"http", "http://x", options("header", "x"), "options.header"},
		{"tcp", "[::1]:22", options("send", "x", "expect", "y"), ""},
		{"tcp", "localhost:ssh", nil, "target"},
		{"tcp", ":22", nil, "target"},
		{"tcp", "localhost:", nil, "target"},
		{"dns", "example.com", options("type", "MX", "server", "[::1]:5353", "expect", "mail.example.com"), ""},
		{"dns", "_dmarc.example.com.", options("type", "TXT", "server", "::1"), ""},
		{"dns", ".", options("type", "NS", "server", "localhost"), ""},
		{"dns", "exämple.com", nil, "target"},
		{"dns", "a..b", nil, "target"},
		{"dns", strings.Repeat("a", 64) + ".b", nil, "target"},
		{"dns", "x", options("type", "PTR"), "options.type"},
		{"dns", "x", options("server", "a:b"), "options.server"},
		{"dns", "x", options("server", ""), "options.server"},
		{"dns", "x", options("expect", "::1"), "options.expect"},
		{"dns", "x", options("expect", "1.2.3", "type", "A"), "options.expect"},
		{"icmp", "127.0.0.1", nil, ""},
		{"icmp", "fe80::1%lo", options("family", "6"), ""},
		{"icmp", "host.example.com", options("family", "4"), ""},
		{"icmp", "127.0.0.1:80", nil, "target"},
		{"icmp", "", nil, "target"},
		{"icmp", "::1", options("family", "4"), "options.family"},
		{"exec", "/bin/true", options("args", `["a", "b c"]`, "env.LANG", "de"), ""},
		{"exec", "true", nil, ""},
		{"exec", "bin/true", nil, "target"},
		{"exec", "./true", nil, "target"},
		{"exec", "..", nil, "target"},
		{"exec", "true", options("args", "a b"), "options.args"},
		{"exec", "true", options("args", "[1]", "env.", "x"), "options.args options.env."},
		{"mine", "", options("any", "thing"), ""},
	} {
		name := map[bool]string{true: "fits", false: "does_not_fit"}[c.want == ""]

		t.Run(c.kind+"_"+name+"_"+c.target+"_"+strings.Join(slices.Sorted(maps.Keys(c.options)), "_"),
			func(t *testing.T) {
				var keys []string
				for _, f := range check.Validate(c.kind, c.target, c.options) {
					keys = append(keys, f.Key)
				}

				if got := strings.Join(keys, " "); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
	}

	t.Run("a_rule_shows_no_secret", func(t *testing.T) {
		for _, f := range slices.Concat(
			check.Validate("http", "htp://me:hush@x/?hush",
				options("header.A", "hush\n", "body", "hush", "hush", "hush")),
			check.Validate("http", "http://me:hush@x y/", nil),
			check.Validate("exec", "true", options("args", "hush")),
		) {
			if strings.Contains(strings.ReplaceAll(f.Error(), "options.hush", ""), "hush") {
				t.Error(f)
			}
		}
	})
}
