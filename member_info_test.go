package regent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestFacts(t *testing.T) {
	huge := map[string]string{"host": strings.Repeat("x", 17000)}
	refused := func(t *testing.T, err error) {
		t.Helper()
		var ce *regent.ConfigError
		want := "facts of 17011 bytes: facts must take at most 16384 bytes as JSON"
		if !errors.As(err, &ce) || ce.Key != "facts" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}

	t.Run("a_member_with_facts_that_are_too_large_does_not_start", func(t *testing.T) {
		store := memstore.New()
		m := &regent.Member{Store: store, ID: "a", Facts: huge}
		refused(t, m.Lead(t.Context(), "seat", func(context.Context, regent.Term) error { return nil }))
		if n := store.Counts().Total(); n != 0 {
			t.Errorf("%d requests reached the store", n)
		}
	})

	t.Run("facts_that_are_too_large_do_not_replace_those_before", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", func(m *regent.Member) { m.Facts = map[string]string{"host": "one"} }).lead()
			leader(t, time.Second, a)
			refused(t, a.SetFacts(huge))
			time.Sleep(5 * time.Second)
			if got := published(c, a).Facts["host"]; got != "one" {
				t.Errorf("others read %.20q", got)
			}

			a.quit()
		})
	})

	t.Run("who_changes_the_map_afterwards_changes_nothing", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			first, second := map[string]string{"host": "one"}, map[string]string{"host": "two"}
			a := c.member("a", func(m *regent.Member) { m.Facts = first })
			ctx, cancel := context.WithCancel(c.ctx)
			a.stop, a.done = cancel, make(chan struct{})
			go func() {
				defer close(a.done)
				for range a.Watch(ctx, "other") {
				}
			}()

			time.Sleep(time.Second)
			first["host"] = "changed"
			go func() {
				_ = a.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error { <-ctx.Done(); return nil })
			}()

			leader(t, time.Second, a)
			if got := published(c, a).Facts["host"]; got != "one" {
				t.Errorf("others read %q", got)
			}

			check(t, a.SetFacts(second))
			second["host"] = "changed"
			time.Sleep(5 * time.Second)
			if got := published(c, a).Facts["host"]; got != "two" {
				t.Errorf("others read %q", got)
			}

			a.quit()
		})
	})

	t.Run("many_long_names_of_elections_fit_into_a_register", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", func(m *regent.Member) {
				m.Facts = map[string]string{"host": strings.Repeat("x",
					16000)}
			})

			var duties []regent.Duty
			for i := range 100 {
				name := fmt.Sprint(strings.Repeat("<", 200), i) // each of them takes six bytes as JSON
				wait := func(ctx context.Context, _ regent.Term) error {
					<-ctx.Done()
					return nil
				}
				duties = append(duties, regent.Duty{Election: name, Name: "wait", Run: wait})
			}

			a.campaign(duties...)
			time.Sleep(5 * time.Second)
			l, err := c.store.Get(c.ctx, driver.MemberRegister("a"))
			if err != nil || len(l.Data) > driver.MaxData {
				t.Errorf("%d bytes, %v", len(l.Data), err)
			}
			if got := published(c, a).Elections; len(got) != 1 || got[0] != "*" {
				t.Errorf("it names %d elections", len(got))
			}

			a.quit()
		})
	})
}

// published is what a node's register says of it.
func published(c *cluster, n *node) regent.MemberView {
	c.t.Helper()
	all, err := n.Members(c.ctx)
	check(c.t, err)
	for _, v := range all {
		if v.ID == n.ID {
			return v
		}
	}

	c.t.Errorf("%s has no register", n.ID)
	return regent.MemberView{}
}
