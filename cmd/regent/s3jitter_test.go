package main

import (
	"strings"
	"testing"
	"time"
)

// testJitterOnS3 starts single nodes with settings of the start-up jitter.
func testJitterOnS3(t *testing.T, s *s3Server) {
	single := func(t *testing.T, args ...string) *fleet {
		t.Helper()
		f := newS3Fleet(t, s, 1, args...)
		f.launch(0)
		return f
	}
	exact := []string{"--startup-jitter-min", "3000", "--startup-jitter-max", "3000"}

	t.Run("J02_a_range_is_kept", func(t *testing.T) {
		t.Parallel()
		f := single(t, "--startup-jitter-min", "2000", "--startup-jitter-max", "8000")
		f.jittered(0, 2*time.Second, 8*time.Second)
	})

	t.Run("J03_a_maximum_of_0_means_no_wait", func(t *testing.T) {
		t.Parallel()
		f := single(t, "--startup-jitter-max", "0")
		f.log.firstDial(f.began[0])
		if said := f.nodes[0].said("member:started"); len(said) > 0 {
			t.Errorf("it waited: %q", said)
		}
	})

	t.Run("J04_J10_equal_bounds_are_exact_at_every_start", func(t *testing.T) {
		t.Parallel()
		f := single(t, exact...)
		f.jittered(0, 3*time.Second, 3*time.Second)
		f.nodes[0].await("member:joined")
		f.nodes[0].stop()

		f.launch(0)
		f.jittered(0, 3*time.Second, 3*time.Second)
	})

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"J05_a_negative_minimum_is_refused": {[]string{"--startup-jitter-min=-100"},
			"startupJitterMin cannot be negative"},
		"J06_a_maximum_below_the_minimum_is_refused": {
			[]string{"--startup-jitter-min=5000", "--startup-jitter-max=1000"},
			"startupJitterMax must be >= startupJitterMin (5s)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := s.logged(t)
			cmd := command(t, s3Env("a"), serveArgs(t, "a", log.address("x"), tt.args...)...)
			if code, out := ends(t, cmd); code != exitConfig || !strings.Contains(out, tt.want) {
				t.Errorf("exit code %d, want %d and %q in\n%s", code, exitConfig, tt.want, out)
			}
			if n := len(log.requests(func(s3Request) bool { return true })); n > 0 {
				t.Errorf("it has sent %d requests", n)
			}
		})
	}

	t.Run("J07_zero_for_both_is_accepted", func(t *testing.T) {
		t.Parallel()
		f := single(t, "--startup-jitter-min", "0", "--startup-jitter-max", "0")
		f.nodes[0].await("became leader")
		if said := f.nodes[0].said("member:started"); len(said) > 0 {
			t.Errorf("it waited: %q", said)
		}
	})

	t.Run("J09_a_lease_is_renewed_at_80_percent_of_its_time_without_jitter", func(t *testing.T) {
		t.Parallel()
		// The holder counts on 6 s - 6 s/500 - 1 s.
		f := single(t, "--startup-jitter-max", "0", "--lease-duration", "6s", "--stop-timeout", "1s",
			"--heartbeat-interval", "4900ms")
		f.steady(t, 3990*time.Millisecond, 5, f.nodes...)
	})
}
