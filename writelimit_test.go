package regent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// limitedStore is a store whose server allows one write of a register in a second.
type limitedStore struct{ driver.Store }

func (limitedStore) WriteInterval() time.Duration { return time.Second }

// A member that would write a register more often than the store allows is refused, with the reason.
func TestHeartbeatsShorterThanTheStoreAllowsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*regent.Config)
		want   string
	}{
		"of_a_member": {
			func(c *regent.Config) {
				c.HeartbeatInterval, c.RenewInterval = 900*time.Millisecond, 900*time.Millisecond
			},
			"heartbeatInterval 900ms: heartbeatInterval must be at least 1s: the store allows one write of a " +
				"register in that time",
		},
		"of_a_lock": {
			func(c *regent.Config) { *c = regent.Lock(); c.RenewInterval = 999 * time.Millisecond },
			"renewInterval 999ms: renewInterval must be at least 1s",
		},
		"but_none_that_is_long_enough": {
			func(c *regent.Config) { c.HeartbeatInterval, c.RenewInterval = time.Second, time.Second }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := regent.Cluster()
			c.change(&cfg)
			store := memstore.New()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			m := &regent.Member{Store: limitedStore{store}, ID: "a", Config: cfg}
			err := m.Lead(ctx, "seat", func(context.Context, regent.Term) error { cancel(); return nil })
			if c.want == "" {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			var refused *regent.ConfigError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := store.Counts().Total(); n != 0 {
				t.Errorf("it has sent %d requests", n)
			}
		})
	}
}
