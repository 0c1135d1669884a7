package nearest_test

import (
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

func TestName(t *testing.T) {
	known := []string{"leaseDuration", "lease-duration", "interval", "REGENT_LISTEN", "on"}
	for given, want := range map[string]string{
		"leaseduration": "leaseDuration", "lease_duration": "leaseDuration", "intervall": "interval",
		"intreval": "interval", "regent listen": "REGENT_LISTEN",
		"": "", "something else": "", "interval": "interval",
	} {
		if got := nearest.Name(given, known); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
