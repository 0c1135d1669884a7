package regent_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestTermAfterARestoredCopy(t *testing.T) {
	for profile, cfg := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
		t.Run(profile, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(cfg)).lead()
				leader(t, time.Second, a)
				time.Sleep(time.Minute)
				check(t, a.StepDown(c.ctx, "seat"))
				leader(t, 2*time.Minute, a)
				old := c.store.Snapshot() // epoch 2, and how the first term has ended
				time.Sleep(time.Hour)

				for range 2 {
					check(t, a.StepDown(c.ctx, "seat"))
					leader(t, 2*time.Minute, a)
					time.Sleep(time.Minute)
				}

				if v, _ := a.View("seat"); v.Epoch != 4 {
					t.Fatalf("%+v", v)
				}
				c.store.Restore(old)
				time.Sleep(10 * time.Minute)

				was, e := before(t, a)
				v, _ := a.View("seat")
				if v.Epoch <= 4 || was.Reason != regent.ReasonForgotten || was.Leader != "" || !was.Ended.IsZero() ||
					was.Vacant != -1 {
					t.Errorf("epoch %d: %+v", v.Epoch, was)
				}
				if _, measured := e.Measurements["vacant"]; measured || e.Epoch != v.Epoch ||
					e.Metadata["previous_reason"] != string(regent.ReasonForgotten) {
					t.Errorf("%+v", e)
				}
				if n := len(v.Past); v.Past[n-1].Epoch != 4 || v.Past[0].Epoch != 1 {
					t.Errorf("the past is %+v", v.Past)
				}

				// The term after that one knows again what was before.
				check(t, a.StepDown(c.ctx, "seat"))
				leader(t, 2*time.Minute, a)
				time.Sleep(time.Second)
				if was, _ := before(t, a); was.Leader != "a" || was.Reason != regent.ReasonSteppedDown {
					t.Errorf("%+v", was)
				}
				a.quit()
			})
		})
	}
}
