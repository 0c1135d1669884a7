//go:build !linux

package check_test

import (
	"errors"
	"testing"
)

func inNamespace() bool { return false }

func TestICMP(t *testing.T) {
	t.Run("elsewhere_it_is_not_supported", func(t *testing.T) {
		if _, err := checker().Run(t.Context(), "icmp", "127.0.0.1", nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
}
