package s3

import (
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// suite runs the conformance suite at an endpoint, below an empty prefix for every test.
func suite(t *testing.T, endpoint string) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		addr := fresh(endpoint)
		return func() (driver.Store, error) {
			return Open(t.Context(), addr, Options{Credentials: credentials()})
		}
	})
}

func TestStore(t *testing.T) { suite(t, shared.endpoint()) }
