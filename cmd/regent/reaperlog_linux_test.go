package main

import (
	"encoding/json"
	"testing"
)

// TestReaperLogsAsItsNode kills a node that logs JSON: what its reaper says of that is JSON too.
func TestReaperLogsAsItsNode(t *testing.T) {
	t.Parallel()
	store := sqliteStore(t)
	d := launch(t, "a", command(t, nil, serveArgs(t, "a", store, "--log-format", "json")...), nil)
	d.await(`"became leader"`)
	start(t, "b", store, nil)
	d.await("cluster:node_up") // some heartbeats later its reaper has been sent one
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.await("process is gone: released what it held")

	for _, line := range d.said("") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line is no JSON: %s", line)
		}
	}
}
