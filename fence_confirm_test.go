package regent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestFenceConfirm(t *testing.T) {
	t.Run("a_confirmation_may_ask_the_member_itself", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			f := regent.Fence{Confirm: func(t regent.Token) error {
				a.Observe("seat", t.Epoch)
				a.View("seat")
				return a.Fence("seat").Learn(t)
			}}
			check(t, f.Admit(regent.Token{Epoch: 9}))
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Error("it no longer leads")
			}

			a.quit()
		})
	})

	t.Run("a_confirmation_is_asked_for_the_first_epoch_too", func(t *testing.T) {
		f := regent.Fence{Confirm: func(regent.Token) error { return errors.New("no") }}
		if f.Admit(regent.Token{Epoch: 1 << 60}) == nil {
			t.Error("admitted")
		}
	})
}
