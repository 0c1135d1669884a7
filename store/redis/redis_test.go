package redis

import (
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

func suite(t *testing.T, url string) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		empty(t)
		return func() (regent.Store, error) { return Open(t.Context(), url, Options{}) }
	})
}

func TestStore(t *testing.T) { suite(t, shared.url()) }
