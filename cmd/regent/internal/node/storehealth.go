package node

import (
	"fmt"
	"time"

	"github.com/regentd/regent"
)

// StoreHealth is how a node's store is, as far as it has asked. Reads and writes are told apart: an outage of writes alone ends
// every term, though everything can still be read.
type StoreHealth struct {
	Address    string `json:"address"`
	Reachable  bool   `json:"reachable"`  // it answers reads
	Writable   bool   `json:"writable"`   // it takes writes, as far as any were sent; false if it cannot be reached
	AnsweredMs int64  `json:"answeredMs"` // how long ago it last answered anything; -1 for never
	ReadMs     int64  `json:"readMs"`     // how long ago a read last succeeded; -1 for never
	WrittenMs  int64  `json:"writtenMs"`  // how long ago a write last succeeded; -1 for never
	Epoch      uint64 `json:"epoch"`      // that the store shows
	Behind     bool   `json:"behind"`     // a higher one was seen before: the store has lost writes
	Error      string `json:"error,omitempty"`
	WriteError string `json:"writeError,omitempty"`
}

// addStore adds how the store is.
func (n *Node) addStore(h *Health) {
	fresh := n.fresh()
	reads, writes := n.store.Seen(fresh)
	answered, _ := n.store.Answered()

	s := &h.Store
	s.AnsweredMs = since(answered)
	s.ReadMs = since(reads.Answered)
	s.WrittenMs = since(writes.Answered)
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
	case !s.Reachable:
		h.Checks["store"] = fmt.Sprintf("no answer for more than %v", fresh)
	}
	if writes.Down != nil {
		h.Checks["writes"] = "writes fail: " + writes.Down.Error()
	}
}

// since returns how long ago something was, in milliseconds; -1 for never.
func since(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return time.Since(t).Milliseconds()
}

// addLeader adds how old the leader's heartbeat is. One whose heartbeat has expired does not lead, whatever the record says.
func addLeader(h *Health, v regent.View) {
	h.HeartbeatAgeMs = v.HeartbeatAge.Milliseconds()
	if !v.Expired {
		return
	}
	h.Checks["leader"] = fmt.Sprintf("%s led; its last heartbeat came %v ago, and nobody could take over",
		v.Leader, v.HeartbeatAge.Round(time.Millisecond))
	h.Leader, h.LeaderAddr = "", ""
}
