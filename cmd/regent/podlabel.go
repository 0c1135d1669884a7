package main

import (
	"context"
	"fmt"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/store/kube"
)

// podLabel returns the duty that keeps the label of this node's pod. It has a connection of its own, and may take a
// while to remove the label when a term ends.
func podLabel(s *config.Settings, within time.Duration) regent.Duty {
	label := kube.PodLabel{Pod: s.PodLabel, Election: s.Election, Within: within}
	duty := label.Duty()
	duty.Run = func(ctx context.Context, t regent.Term) error {
		store, err := kube.Open(ctx, s.Store, kube.Options{NoProbe: true})
		if err != nil {
			return fmt.Errorf("%w: label pod %s: %w", regent.ErrStore, s.PodLabel, err)
		}
		defer store.Close()

		own := label
		own.Store = store
		return own.Duty().Run(ctx, t)
	}
	return duty
}
