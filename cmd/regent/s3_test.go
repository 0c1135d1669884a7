package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestS3WriteInterval(t *testing.T) {
	t.Run("a_heartbeat_shorter_than_the_server_allows_is_refused", func(t *testing.T) {
		t.Parallel()
		address := "s3://bucket?endpoint=" + url.QueryEscape("https://0123.r2.cloudflarestorage.com")
		for way, args := range everyStart(t, address, "--profile", "cluster", "--heartbeat-interval", "900ms") {
			code, out := ends(t, command(t, nil, args...))
			const want = "heartbeatInterval 900ms: heartbeatInterval must be at least 1s"
			if code != exitConfig || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	})
}

// text returns what a node answers.
func (d *daemon) text(path string) string {
	d.t.Helper()
	resp, err := http.Get(d.url + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// TestS3Messages starts nodes on buckets that cannot be used, or not yet. The message says why, and names the server.
func TestS3Messages(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hung.Close() })
	at := hung.Addr().String()

	t.Run("a_node_without_credentials_says_so_and_how_to_give_them", func(t *testing.T) {
		t.Parallel()
		env := slices.DeleteFunc(s3Env("a"), func(v string) bool {
			return strings.HasPrefix(v, "AWS_ACCESS_KEY_ID") || strings.HasPrefix(v, "AWS_SECRET_ACCESS_KEY")
		})
		const advice = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give"
		a := start(t, "a", s3Address(at, "x"), env, "--startup-jitter-max", "0")
		a.await(`level=ERROR msg="store has no credentials" store="s3://bucket/x.*error=".*` + advice)
		if said := a.said("store unreachable"); len(said) > 0 {
			t.Errorf("it says %q", said)
		}

		cmd := command(t, env, "run", "x", "--store", s3Address(at, "x"), "--startup-jitter-max", "0",
			"--timeout", "2s", "--", "true")
		code, out := ends(t, cmd)
		if code != exitConfig || !strings.Contains(out, "was not opened within 2s") ||
			!strings.Contains(out, advice) {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})

	t.Run("a_command_without_credentials_needs_another_configuration", func(t *testing.T) {
		t.Parallel()
		// The metadata service of the machine gives no role. The SDK would log that by itself.
		metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}))
		t.Cleanup(metadata.Close)
		env := slices.DeleteFunc(s3Env("a"), func(v string) bool {
			return strings.HasPrefix(v, "AWS_ACCESS_KEY_ID") || strings.HasPrefix(v, "AWS_SECRET_ACCESS_KEY") ||
				strings.HasPrefix(v, "AWS_EC2_METADATA_DISABLED")
		})
		env = append(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+metadata.URL, "AWS_MAX_ATTEMPTS=1")

		for name, want := range map[string]int{"status": exitConfig, "doctor": exitFailure} {
			code, out := ends(t, command(t, env, name, "--store", s3Address(at, "x")))
			out = strings.Join(strings.Fields(out), " ")
			if code != want || !strings.Contains(out, "no credentials: set") ||
				strings.Contains(out, "be reached") || strings.Contains(out, "SDK 2") {
				t.Errorf("%s: exit code %d:\n%s", name, code, out)
			}
		}
	})

	t.Run("a_server_that_hangs_is_named", func(t *testing.T) {
		t.Parallel()
		a := start(t, "a", s3Address(at, "x"), s3Env("a"), "--startup-jitter-max", "0")
		a.await(`msg="store unreachable".*no answer from http://` + at + ` in time"`)
		b := start(t, "b", "redis://"+at, nil)
		b.await(`msg="store unreachable" store=redis://` + at + ` error=.*no answer in time`)
	})
}
