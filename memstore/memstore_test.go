package memstore_test

import (
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		s := memstore.New()
		return func() (driver.Store, error) { return s.Client(t.Name(), memstore.Faults{}), nil }
	})
}
