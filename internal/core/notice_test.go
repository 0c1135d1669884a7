package core

import (
	"testing"
	"time"
)

// After a notice that anything may have changed, the heartbeat register of a leader is read too, once.
func TestANoticeOfNothing(t *testing.T) {
	r := newRig(t, clusterConfig())
	r.put(held(other, 3, remote))
	r.put(beating(other, 50))
	r.start()
	r.run(time.Second)
	r.forget()
	r.step(Notice{})
	r.serve()
	reads := map[string]int{}
	for _, s := range every[Send](r) {
		reads[s.Record.Name]++
	}
	equal(t, "reads of the election", reads[election1], 1)
	equal(t, "reads of the heartbeat", reads[remote], 1)
}
