package regent_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestLockAfterAnOutage(t *testing.T) {
	t.Run("after_an_outage_a_lock_is_read_again_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Lock()))
			a.client.SetFaults(faults{Outage: true})
			a.lead()
			time.Sleep(10 * time.Minute)
			a.client.SetFaults(faults{})
			if _, took := leader(t, time.Minute, a); took > 2*time.Second {
				t.Errorf("took %v", took)
			}

			a.quit()
		})
	})
}
