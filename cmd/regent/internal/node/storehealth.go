package node

import (
	"fmt"
	"time"
)

// StoreHealth is the health of a node's store according to its last requests. Reads and writes have their own: an
// outage of writes alone ends every term, although everything can still be read.
type StoreHealth struct {
	Address    string `json:"address"`
	Reachable  bool   `json:"reachable"`  // it answers reads
	Writable   bool   `json:"writable"`   // it takes writes, as far as any were sent; false if it cannot be reached
	AnsweredMs int64  `json:"answeredMs"` // how long ago it last answered anything; -1 for never
	ReadMs     int64  `json:"readMs"`     // how long ago a read last succeeded; -1 for never
	WrittenMs  int64  `json:"writtenMs"`  // how long ago a write last succeeded; -1 for never
	Epoch      uint64 `json:"epoch"`      // of the election's record
	Behind     bool   `json:"behind"`     // a higher epoch was seen before: the store has lost writes
	Error      string `json:"error,omitempty"`
	WriteError string `json:"writeError,omitempty"`
}

// addStore adds the health of the store.
func (n *Node) addStore(h *Health) {
	fresh := n.answerTimeout()
	reads, writes := n.store.Accesses(fresh)
	answered, _ := n.store.Answered()

	s := &h.Store
	s.AnsweredMs = millisecondsSince(answered)
	s.ReadMs = millisecondsSince(reads.Answered)
	s.WrittenMs = millisecondsSince(writes.Answered)
	s.Reachable = !answered.IsZero() && time.Since(answered) <= fresh && reads.Down == nil
	wrote := writes.Err == nil && !writes.Answered.IsZero() && time.Since(writes.Answered) <= fresh
	s.Writable = writes.Down == nil && (s.Reachable || wrote)
	if reads.Err != nil {
		s.Error = reads.Err.Error()
	}
	if writes.Err != nil {
		s.WriteError = writes.Err.Error()
	}

	switch {
	case reads.Down != nil:
		h.Checks["store"] = "reads fail: " + reads.Down.Error()
	case !s.Reachable && reads.Err != nil:
		h.Checks["store"] = fmt.Sprintf("no answer for more than %v: %v", fresh, reads.Err)
	case !s.Reachable:
		h.Checks["store"] = fmt.Sprintf("no answer for more than %v", fresh)
	}
	if writes.Down != nil {
		h.Checks["writes"] = "writes fail: " + writes.Down.Error()
	}
}

// answerTimeout is how long an answer of the store counts: a few heartbeats, or a few polls of a member without
// heartbeats.
func (n *Node) answerTimeout() time.Duration {
	c := n.opts.Config
	if c.OwnLease && !c.Register {
		return max(c.ElectionIntervalMax, c.RenewInterval, c.LeaseDuration) + 10*time.Second
	}

	return 3*c.HeartbeatInterval + 2*time.Second
}

// millisecondsSince returns the milliseconds since a time, or -1 if it is zero.
func millisecondsSince(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}

	return time.Since(t).Milliseconds()
}
