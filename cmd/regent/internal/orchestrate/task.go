package orchestrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/work"
)

// payload is the payload of the task of a slot.
type payload struct {
	Poll      string            `json:"poll"`
	Target    string            `json:"target"`
	Options   map[string]string `json:"options,omitempty"`
	TimeoutMs int64             `json:"timeoutMs"`
	Due       int64             `json:"due,omitempty"` // Unix milliseconds
}

// payloadPrefix returns the JSON of a payload up to the value of due, which is the last key. Only that differs between
// the slots of a poll.
func payloadPrefix(p poll.Poll) []byte {
	b, _ := json.Marshal(payload{ // strings and numbers cannot fail
		Poll:      p.Name,
		Target:    p.Target,
		Options:   p.Options,
		TimeoutMs: time.Duration(p.Timeout).Milliseconds(),
	})

	return append(b[:len(b)-1], `,"due":`...)
}

// payload returns the payload of the task of a slot.
func (e *entry) payload(s *slot) json.RawMessage {
	b := make([]byte, 0, len(e.prefix)+16)
	b = append(b, e.prefix...)
	b = strconv.AppendInt(b, s.Due, 10)
	return append(b, '}')
}

// HandleChecks has a worker make the checks that a checker supports.
func HandleChecks(w *work.Worker, c *check.Checker) {
	for _, kind := range c.Kinds() {
		w.Handle(kind, func(ctx context.Context, t work.Task) (json.RawMessage, error) {
			return runCheck(ctx, c, kind, t)
		})
	}
}

// errWaited is returned if less of its timeout is left than a check needs: its result would say nothing of the target.
var errWaited = errors.New("the task has waited too long at this worker")

// runCheck makes the check of a task and returns a check.Outcome.
func runCheck(ctx context.Context, c *check.Checker, kind string, t work.Task) (json.RawMessage, error) {
	var p payload
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		return nil, fmt.Errorf("the task cannot be parsed: %w", err)
	}

	if timeout := time.Duration(p.TimeoutMs) * time.Millisecond; timeout > 0 {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < timeout*9/10 {
			return nil, errWaited
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}

	found, err := c.Run(ctx, kind, p.Target, p.Options)
	if err != nil {
		return nil, err
	}

	return json.Marshal(found)
}
