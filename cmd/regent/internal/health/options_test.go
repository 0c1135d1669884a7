package health

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestOptions(t *testing.T) {
	roster := (&regent.Member{}).NewRoster
	for want, o := range map[string]Options{
		"no Self":                     {NewRoster: roster},
		"no NewRoster":                {Self: "a"},
		"interval -1s":                {Self: "a", NewRoster: roster, Interval: -time.Second},
		"recheck 2s":                  {Self: "a", NewRoster: roster, Interval: time.Second, Recheck: 2 * time.Second},
		"listTimeout -1s":             {Self: "a", NewRoster: roster, ListTimeout: -time.Second},
		"probeTimeout -1s":            {Self: "a", NewRoster: roster, ProbeTimeout: -time.Second},
		"parallel -1":                 {Self: "a", NewRoster: roster, Parallel: -1},
		"degradedLatency 3s":          {Self: "a", NewRoster: roster, DegradedLatency: 3 * time.Second},
		"heartbeatInterval -1s":       {Self: "a", NewRoster: roster, HeartbeatInterval: -time.Second},
		"epochLag -1s":                {Self: "a", NewRoster: roster, EpochLag: -time.Second},
		"goneAfter -1s":               {Self: "a", NewRoster: roster, GoneAfter: -time.Second},
		"keepGone -1s: keepGone must": {Self: "a", NewRoster: roster, KeepGone: -time.Second},
	} {
		t.Run("an_error_says/"+want, func(t *testing.T) {
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
