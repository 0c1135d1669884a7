package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// memory returns the memory of a process that it shares with no other, in bytes.
func (d *daemon) memory() int {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0 // not Linux
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb << 10
}

// firstRequests counts the first requests of all nodes by the second, from the start of each process.
func (f *fleet) firstRequests(window int) []int {
	counts := make([]int, window+1)
	for k := range f.nodes {
		came := f.jittered(k, 0, time.Duration(window)*time.Second)
		counts[min(int(came/time.Second), window)]++
	}
	return counts
}

// TestFleetOnS3Large is fleets of 50 and 200 real processes on a real S3 server. The times of all requests are those of
// the log before it.
func TestFleetOnS3Large(t *testing.T) {
	if os.Getenv("REGENT_LONG") == "" {
		t.Skip("takes minutes: 'make faults' runs it, and TestFleetOnS3 a short form")
	}

	t.Run("J11_fifty_nodes_with_defaults", func(t *testing.T) {
		f := newS3Fleet(t, startS3(t), 50)
		f.follow = 15 * time.Second // a heartbeat interval and the requests, on a busy machine
		testLargeOnS3(t, f, 5, 30, 3)
	})
	t.Run("J13_two_hundred_nodes_over_15s_and_ten_kills", func(t *testing.T) {
		// With a heartbeat every 5 s and 200 processes two cores are busy with nothing else.
		f := newS3Fleet(t, startS3(t), 200, "--startup-jitter-max", "15s", "--heartbeat-interval", "15s",
			"--lease-duration", "60s", "--election-interval", "15s", "--worker-timeout", "60s")
		f.follow = 40 * time.Second
		testLargeOnS3(t, f, 15, 60, 10)
	})
	t.Run("takeovers_of_twenty_nodes_without_a_reaper", func(t *testing.T) {
		f := newS3Fleet(t, startS3(t), 20, "--reaper=false")
		f.start()
		term := f.term(1)
		for range 3 {
			term, _ = f.killLeader(term)
		}
		f.stop()
	})
	t.Run("takeovers_of_twenty_nodes_after_a_release", func(t *testing.T) {
		f := newS3Fleet(t, startS3(t), 20)
		f.start()
		term := f.term(1)
		for range 5 {
			term, _ = f.stopLeader(term)
		}
		f.stop()
	})
}

// testLargeOnS3 starts a fleet with that window of jitter, checks how its requests are spread over the first seconds,
// and kills its leaders.
func testLargeOnS3(t *testing.T, f *fleet, window, seconds, kills int) {
	const minute = 60 // seconds
	f.next = true
	delay := watchMachine()
	f.start()
	began := f.began[f.size/2]
	t.Logf("%d processes were started in %v", f.size, time.Since(began).Round(time.Millisecond))
	term := f.term(1)
	t.Logf("%s leads after %v", term.record.Holder, term.came.Sub(began).Round(time.Millisecond))
	t.Logf("first requests by second after the start of each process: %v", f.firstRequests(window))

	<-time.After(time.Until(began.Add(time.Duration(seconds+1) * time.Second)))
	late := delay()
	t.Logf("the first %d s (this process was late by at most %v):", seconds, late)
	if counted, err := f.log.spread(began, seconds); counted && err != nil {
		if late > time.Second {
			t.Logf("does not count, the machine stalled: %v", err)
		} else {
			t.Error(err)
		}
	}
	f.step(t, "J15_the_smallest_ID_leads", func(t *testing.T) { f.smallest(t, term, late) })

	steady := time.Now()
	<-time.After(minute * time.Second)
	t.Log("the minute after that:")
	_, _ = f.log.spread(steady, minute)

	var memory []int
	for _, d := range f.nodes {
		memory = append(memory, d.memory())
	}
	slices.Sort(memory)
	t.Logf("memory of a node of its own: median %.1f MB, most %.1f MB", float64(memory[f.size/2])/1e6,
		float64(memory[f.size-1])/1e6)

	var took []time.Duration
	for range kills {
		next, after := f.killLeader(term)
		term = next
		took = append(took, after)
	}
	slices.Sort(took)
	t.Logf("%d kills: takeover median %v, longest %v", kills, took[kills/2].Round(time.Millisecond),
		took[kills-1].Round(time.Millisecond))
	f.stop()
}
