package health

import (
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	members := (&virtualCluster{}).list
	for want, o := range map[string]Options{
		"no Self":                     {Members: members},
		"no Members":                  {Self: "a"},
		"interval -1s":                {Self: "a", Members: members, Interval: -time.Second},
		"recheck 2s":                  {Self: "a", Members: members, Interval: time.Second, Recheck: 2 * time.Second},
		"listTimeout -1s":             {Self: "a", Members: members, ListTimeout: -time.Second},
		"probeTimeout -1s":            {Self: "a", Members: members, ProbeTimeout: -time.Second},
		"parallel -1":                 {Self: "a", Members: members, Parallel: -1},
		"degradedLatency 3s":          {Self: "a", Members: members, DegradedLatency: 3 * time.Second},
		"heartbeatInterval -1s":       {Self: "a", Members: members, HeartbeatInterval: -time.Second},
		"epochLag -1s":                {Self: "a", Members: members, EpochLag: -time.Second},
		"goneAfter -1s":               {Self: "a", Members: members, GoneAfter: -time.Second},
		"keepGone -1s: keepGone must": {Self: "a", Members: members, KeepGone: -time.Second},
	} {
		t.Run("an_error_says/"+want, func(t *testing.T) {
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
