package nats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

// keysOf writes the keys of users, and returns a function that returns the path of one file.
func keysOf(t *testing.T) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := lab.Keys(dir); err != nil {
		t.Fatal(err)
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

// replace gives a file the content of another one, at once.
func replace(t *testing.T, path, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(path+".next", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".next", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// whole does all that a store can do.
func whole(t *testing.T, s *Store) {
	t.Helper()
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)
	if names := storetest.Names(t, s, "a"); len(names) != 1 {
		t.Errorf("List yields %q", names)
	}
	l.Holder = driver.Identity{}
	if err := s.Remove(t.Context(), storetest.Swap(t, s, l)); err != nil {
		t.Error(err)
	}
	storetest.Swap(t, s, held("a", "x", 2))
}

// turnedAway checks that Open is refused.
func turnedAway(t *testing.T, addr, want string) {
	t.Helper()
	_, err := Open(t.Context(), addr, Options{})
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want ErrRefused with %q", err, want)
	}
}

// TestCredentials logs in with a JWT of an account, signed by an operator that the server trusts.
func TestCredentials(t *testing.T) {
	t.Parallel()
	keys := keysOf(t)
	replace(t, keys("server.conf"), keys("jwt.conf"))
	all := servers(t, 1, fmt.Sprintf("include %q", relative(t, keys("server.conf"))))
	addr := natstest.Address(all, "")
	turnedAway(t, addr, "Authorization Violation")
	turnedAway(t, addr+"?creds="+keys("stranger.creds"), "Authorization Violation")
	turnedAway(t, addr+"?creds="+keys("server.conf"), "must be a file with the JWT of a user and its seed")

	replace(t, keys("app.creds"), keys("one.creds"))
	s := open(t, addr+"?creds="+keys("app.creds"))
	whole(t, s)

	t.Run("a_user_who_is_revoked_and_gets_new_credentials_goes_on", func(t *testing.T) {
		all[0].Kill()
		replace(t, keys("server.conf"), keys("revoked.conf"))
		if err := all[0].Start(); err != nil {
			t.Fatal(err)
		}
		turnedAway(t, addr+"?creds="+keys("app.creds"), "Authorization Violation")
		if l, err := s.Get(drivertest.Short(t), "a"); err == nil {
			t.Errorf("a revoked user reads %+v", l)
		}

		replace(t, keys("app.creds"), keys("two.creds"))
		if l := drivertest.Settled(t, s, "a"); l.Epoch != 2 {
			t.Errorf("the register shows %+v", l)
		}
	})
}

// relative returns a path as the configuration of a server includes it: from the directory of that configuration.
func relative(t *testing.T, path string) string {
	t.Helper()
	text, err := filepath.Rel(lab.Dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNKey logs in with a key that the server lists.
func TestNKey(t *testing.T) {
	t.Parallel()
	keys := keysOf(t)
	all := servers(t, 1, fmt.Sprintf("include %q", relative(t, keys("nkey.conf"))))
	addr := natstest.Address(all, "")
	turnedAway(t, addr, "Authorization Violation")
	turnedAway(t, addr+"?nkey="+keys("stranger.nk"), "Authorization Violation")
	turnedAway(t, addr+"?nkey="+keys("nkey.conf"), "must be a file with the seed of a user's nkey")
	whole(t, open(t, addr+"?nkey="+keys("user.nk")))
}

// TestDomain uses the stream of another JetStream domain, over a leaf node that has a domain of its own.
func TestDomain(t *testing.T) {
	t.Parallel()
	port := natstest.Ports(1)[0]
	domain := func(name, more string) []*natstest.Server {
		return servers(t, 1, fmt.Sprintf("jetstream { store_dir: %q, domain: %s }\n%s",
			filepath.Join(t.TempDir(), name), name, more))
	}
	hub := domain("hub", fmt.Sprintf("leafnodes { listen: \"127.0.0.1:%d\" }", port))
	leaf := domain("leaf", fmt.Sprintf("leafnodes { remotes: [ { url: \"nats-leaf://127.0.0.1:%d\" } ] }", port))

	var far *Store
	drivertest.Eventually(t, "the leaf node is connected to the hub", func() bool {
		s, err := Open(drivertest.Short(t), natstest.Address(leaf, "/SHARED?domain=hub"), Options{})
		far = s
		return err == nil
	})
	t.Cleanup(func() { _ = far.Close() })
	whole(t, far)

	for name, addr := range map[string]string{
		"at_the_hub_itself":                natstest.Address(hub, "/SHARED"),
		"at_the_hub_itself_by_its_name":    natstest.Address(hub, "/SHARED?domain=hub"),
		"over_the_leaf_node_once_again":    natstest.Address(leaf, "/SHARED?domain=hub"),
		"by_the_prefix_that_it_stands_for": natstest.Address(leaf, "/SHARED?apiPrefix=$JS.hub.API"),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := open(t, addr).Get(t.Context(), "a")
			if now := drivertest.Settled(t, far, "a"); err != nil || l.Rev != now.Rev {
				t.Errorf("%+v, %v, want revision %s", l, err, now.Rev)
			}
		})
	}

	t.Run("the_domain_of_the_leaf_node_has_no_such_stream", func(t *testing.T) {
		for _, more := range []string{"/SHARED", "/SHARED?domain=leaf"} {
			_, err := Open(t.Context(), natstest.Address(leaf, more), Options{NoProbe: true})
			if !errors.Is(err, ErrNoStream) {
				t.Errorf("Open of %s: %v, want ErrNoStream", more, err)
			}
		}
	})
	t.Run("a_domain_that_nobody_has", func(t *testing.T) {
		_, err := Open(drivertest.Short(t), natstest.Address(leaf, "/SHARED?domain=none"), Options{})
		if err == nil || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "nobody has the domain") {
			t.Errorf("Open: %v, want an error that may pass", err)
		}
	})
}
