package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/slots"
)

func TestSlotsCommand(t *testing.T) {
	dir := t.TempDir()

	// journal writes a journal with completed slots.
	journal := func(name string, seconds ...int) string {
		var b strings.Builder
		for _, s := range seconds {
			due := 1_700_000_000_000 + s*1000
			fmt.Fprintf(&b, `{"begin":"p/%d","kind":"http","epoch":1}`+"\n", due)
			fmt.Fprintf(&b, `{"id":"p/%d","kind":"http","epoch":1,"outcome":"done","data":{"ok":true},`+
				`"beganMs":%d,"tookUs":10}`+"\n", due, due+3)
		}

		path := filepath.Join(dir, name)
		writeFile(t, path, b.String())
		return path
	}
	even := journal("even", 0, 2, 4)
	odd := journal("odd", 1, 5)

	twice := journal("twice", 3, 4)
	for _, c := range []struct {
		name     string
		journals []string
		code     int
		says     []string
		holes    int
		doubles  int
	}{
		{"a_hole_is_named", []string{even, odd}, 1,
			[]string{"left out: p/1700000003000\n", "1 polls, 5 slots completed, 1 left out, 0 completed twice"}, 1, 0},
		{"a_double_is_named_with_both_journals", []string{even, odd, twice}, 1,
			[]string{"completed twice: p/1700000004000 in " + even + " and " + twice, "0 left out, 1 completed twice"},
			0, 1},
		{"each_slot_once_is_fine", []string{odd, journal("rest", 2, 3, 4)}, 0,
			[]string{"1 polls, 5 slots completed, 0 left out, 0 completed twice", "p50 3ms"}, 0, 0},
		{"journals_with_nothing_in_them_prove_nothing", []string{journal("empty")}, 1, []string{"0 slots completed"}, 0,
			0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := command(t, nil, append([]string{"slots"}, c.journals...)...)
			out, _ := cmd.CombinedOutput()

			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d", code)
			}
			for _, words := range c.says {
				if !strings.Contains(string(out), words) {
					t.Errorf("it does not say %q, but\n%s", words, out)
				}
			}

			cmd = command(t, nil, append([]string{"slots", "-o", "json"}, c.journals...)...)
			out, _ = cmd.Output()
			var r slots.Report
			if err := json.Unmarshal(out, &r); err != nil || cmd.ProcessState.ExitCode() != c.code ||
				len(r.Holes) != c.holes || len(r.Doubles) != c.doubles {
				t.Errorf("%v, exit code %d\n%s", err, cmd.ProcessState.ExitCode(), out)
			}
		})
	}

	t.Run("a_poll_of_the_configuration_that_never_ran_is_left_out", func(t *testing.T) {
		config := filepath.Join(dir, "regent.yaml")
		text := "polls:\n  p: {kind: tcp, target: 'localhost:1', interval: 1s}\n  idle: {kind: tcp, target: " +
			"'localhost:1', interval: 1s}\n" +
			"  off: {kind: tcp, target: 'localhost:1', interval: 1s, enabled: false}\n"
		writeFile(t, config, text)

		var b strings.Builder
		for s := range 30 {
			due := 1_700_000_000_000 + s*1000
			fmt.Fprintf(&b, `{"id":"x/%d","kind":"tcp","epoch":1,"outcome":"done","data":{"ok":true},`+
				`"beganMs":%d,"tookUs":10}`+"\n", due, due+3)
		}

		whole := filepath.Join(dir, "whole")
		writeFile(t, whole, b.String())
		cmd := command(t, nil, "slots", "--config", config, whole)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "never ran: idle\n") ||
			!strings.Contains(string(out), "left out: idle/") ||
			!strings.Contains(string(out), "never ran: p\n") || strings.Contains(string(out), "off") ||
			strings.Contains(string(out), " 0 left out") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})

	t.Run("of_many_slots_the_first_are_named", func(t *testing.T) {
		out, _ := command(t, nil, "slots", journal("gap", 0, 1, 31)).CombinedOutput()
		if n := strings.Count(string(out), "left out: p/"); n != 20 || !strings.Contains(string(out), "and 9 more\n") {
			t.Errorf("%d slots are named in\n%s", n, out)
		}
	})

	t.Run("what_makes_no_sense_is_refused", func(t *testing.T) {
		for code, args := range map[int][]string{exitUsage: {"slots"},
			exitFailure: {"slots", filepath.Join(dir, "missing")}} {
			cmd := command(t, nil, args...)
			if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code ||
				!strings.HasPrefix(string(out), "regent: ") {
				t.Errorf("%q: exit code %d\n%s", args, cmd.ProcessState.ExitCode(), out)
			}
		}

		if out, err := command(t, nil, "slots", "-o", "yaml", even).Output(); err != nil ||
			!strings.Contains(string(out), "polls: ") {
			t.Errorf("%v\n%s", err, out)
		}
		cmd := command(t, nil, "slots", "-o", "xml", even)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage ||
			!strings.Contains(string(out), "xml") {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
	})
}
