package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clockOf makes a file with the error of a node's clock, and returns the variable that names the file.
func clockOf(t *testing.T, offset string) (file string, env []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "offset")
	setClock(t, file, offset)
	return file, []string{testClockFile + "=" + file}
}

func setClock(t *testing.T, file, offset string) {
	t.Helper()
	next := file + ".new"
	writeFile(t, next, offset)

	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

// TestClocks runs polls by leaders whose wall clocks are wrong. Each node is a worker as well.
func TestClocks(t *testing.T) {
	type standing struct {
		Counts  map[string]uint64
		Results []struct {
			Epoch uint64
			Slot  string
		}
	}

	// grows waits until a poll has run so many times more.
	grows := func(d *daemon, by uint64) {
		t.Helper()
		first := seen(d, "/v1/polls/p0", func(s standing) bool { return true }).Counts["ok"]
		seen(d, "/v1/polls/p0", func(s standing) bool { return s.Counts["ok"] >= first+by })
	}

	t.Run("a_leader_whose_clock_was_ahead_dies_and_its_successor_runs_polls_at_once", func(t *testing.T) {
		t.Parallel()
		config := filepath.Join(t.TempDir(), "regent.yaml")
		writeFile(t, config, everySecond(1, webTarget(t)))
		store := sqliteStore(t)
		_, ahead := clockOf(t, "10m")
		a := start(t, "a", store, ahead, "--config", config)
		a.until("/leader", 200)
		b := start(t, "b", store, nil, "--config", config)
		grows(a, 3)

		a.signal(syscall.SIGKILL)
		<-a.gone
		b.until("/leader", 200)
		began := time.Now()

		// Well within the ten minutes by which the clock was ahead.
		seen(b, "/v1/polls/p0", func(s standing) bool {
			return len(s.Results) > 0 && s.Results[0].Epoch == 2 && s.Counts["ok"] >= 3
		})
		t.Logf("polls ran again after %v", time.Since(began).Round(time.Second))
		b.await(`poll:clock_jumped.*ahead of this node's clock`)
		b.stop()
	})

	t.Run("a_clock_that_is_set_while_a_node_leads_stops_nothing", func(t *testing.T) {
		t.Parallel()
		config := filepath.Join(t.TempDir(), "regent.yaml")
		writeFile(t, config, everySecond(1, webTarget(t)))
		file, env := clockOf(t, "0s")
		a := start(t, "a", sqliteStore(t), env, "--config", config)
		a.until("/leader", 200)
		grows(a, 2)
		setClock(t, file, "-1h")
		a.await(`poll:clock_jumped.*the clock of this node went back by (1h|59m59|1h0m0)`)
		grows(a, 3)
		setClock(t, file, "2h")
		a.await(`poll:clock_jumped.*the clock of this node went ahead by`)
		grows(a, 3)

		if missed := a.said("poll:missed"); len(missed) != 0 {
			t.Errorf("it calls slots missed: %v", missed)
		}
		a.stop()
	})

	// Nodes sign what they send each other. Their clocks do not matter for that.
	for _, offset := range []string{"300s", "-300s", "87600h"} {
		t.Run("a_leader_with_a_token_whose_clock_is_off_by_"+offset+"_has_workers_run_polls", func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "regent.yaml")
			writeFile(t, config, everySecond(1, webTarget(t)))
			store := sqliteStore(t)
			const token = "REGENT_TOKEN=correct-horse-battery-staple"
			_, off := clockOf(t, offset)
			a := start(t, "a", store, append(off, token), "--config", config, "--worker=false")
			a.until("/leader", 200)
			w := start(t, "w", store, []string{token}, "--config", config, "--eligible=false")
			grows(a, 3)

			// The worker is started again at its address, and has forgotten its challenges.
			listen := strings.TrimPrefix(w.url, "http://")
			w.signal(syscall.SIGKILL)
			<-w.gone
			w = start(t, "w", store, []string{token}, "--config", config, "--eligible=false", "--listen", listen)
			grows(a, 3)
			w.stop()
			a.stop()
		})
	}
}
