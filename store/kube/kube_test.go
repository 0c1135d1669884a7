package kube

import (
	"net/http"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestStore(t *testing.T) {
	s := server(t)
	storetest.Run(t, func(t *testing.T) storetest.Open {
		addr := fresh(t, s)
		return func() (driver.Store, error) { return Open(t.Context(), addr, Options{}) }
	})
}

func TestUnreadable(t *testing.T) {
	s := server(t)
	storetest.RunUnreadable(t, func(t *testing.T) (storetest.Open, func(string) error) {
		addr := fresh(t, s)
		a, err := parseAddress(addr)
		if err != nil {
			t.Fatal(err)
		}
		open := func() (driver.Store, error) { return Open(t.Context(), addr, Options{}) }
		return open, func(name string) error {
			path := "/apis/coordination.k8s.io/v1/namespaces/" + a.namespace + "/leases/" + a.leaseName(name)
			_, err := s.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json",
				`{"metadata":{"annotations":{"regent.dev/record":"{"}}}`)
			return err
		}
	})
}
