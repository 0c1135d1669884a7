package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/work"
)

// job is what a worker is told of a slot.
type job struct {
	Poll      string            `json:"poll"`
	Target    string            `json:"target"`
	Options   map[string]string `json:"options"`
	TimeoutMs int64             `json:"timeoutMs"`
	Due       int64             `json:"due"` // Unix milliseconds
}

// Serve has a worker make the checks that its checker can make.
func Serve(w *work.Worker, c *check.Checker) {
	for _, kind := range c.Kinds() {
		w.Handle(kind, func(ctx context.Context, t work.Task) (json.RawMessage, error) {
			var j job
			if err := json.Unmarshal(t.Payload, &j); err != nil {
				return nil, fmt.Errorf("the task cannot be read: %w", err)
			}
			if limit := time.Duration(j.TimeoutMs) * time.Millisecond; limit > 0 {
				if end, ok := ctx.Deadline(); ok && time.Until(end) < limit*9/10 {
					return nil, errors.New("it has waited too long at this worker") // what is left would say nothing of the target
				}
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			o, err := c.Run(ctx, kind, j.Target, j.Options)
			if err != nil {
				return nil, err
			}
			return json.Marshal(o)
		})
	}
}
