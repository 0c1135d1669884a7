package regent_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
)

// TestConfigByHand shows that a configuration without a profile turns nothing off by what it leaves out.
func TestConfigByHand(t *testing.T) {
	bubble(t, func(c *cluster) {
		byHand := regent.Config{
			LeaseDuration:       40 * time.Second,
			RenewInterval:       time.Second,
			StopTimeout:         time.Second,
			ElectionInterval:    time.Second,
			ElectionIntervalMax: time.Second,
			HeartbeatInterval:   time.Second,
			WorkerTimeout:       6 * time.Second,
			Rank:                regent.RankFirst,
			ContentionThreshold: 2,
		}
		a := c.member("a", config(byHand))
		f := a.Fence("other")
		check(t, f.Admit(regent.Token{Epoch: 2}))
		if f.Admit(regent.Token{Epoch: 1}) == nil {
			t.Error("the fence is off")
		}

		a.lead()
		leader(t, time.Second, a)
		a.client.Adjust(func(f *faults) { f.Request.Min = 3 * time.Second })
		time.Sleep(10 * time.Second)
		if len(a.kinds(regent.EventContention)) == 0 {
			t.Error("slow heartbeats are no event")
		}

		a.client.SetFaults(faults{})
		a.quit()
	})
}
