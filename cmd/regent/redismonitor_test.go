package main

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// monitor makes a server report every command from now on.
func (r *redisServer) monitor() *serverLog {
	r.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+r.port)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		r.t.Fatal(err)
	}

	in := bufio.NewReader(conn)
	if ok, err := in.ReadString('\n'); err != nil || strings.TrimSpace(ok) != "+OK" {
		r.t.Fatalf("MONITOR: %q, %v", ok, err)
	}

	l := &serverLog{server: r}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}

			if m := monitorLine.FindStringSubmatch(line); m != nil {
				at, _ := strconv.ParseFloat(m[1], 64)
				l.mu.Lock()
				l.all = append(l.all, served{at, strings.ToLower(m[3]), line, m[2] == "lua"})
				l.mu.Unlock()
			}
		}
	}()

	r.t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return l
}

// serverLog is all commands that a Redis server runs, as the server itself reports them.
type serverLog struct {
	server *redisServer

	mu  sync.Mutex
	all []served
}

// catchUp waits until the log has every command so far.
func (l *serverLog) catchUp() {
	l.server.t.Helper()
	mark := "caught-up-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	l.server.cli("ECHO", mark)
	waitFor(l.server.t, "the server's log shows "+mark, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.all, func(c served) bool { return strings.Contains(c.line, mark) })
	})
}

// writes returns when clients sent writes of a register for a holder, or for anybody if that is empty. A call of the
// script that writes has at least six arguments after the two keys; a call of the one that reads has one.
func (l *serverLog) writes(election, holder string) []float64 {
	l.server.t.Helper()
	l.catchUp()
	l.mu.Lock()
	defer l.mu.Unlock()

	var at []float64
	for _, c := range l.all {
		words := monitorWord.FindAllStringSubmatch(c.line, -1)
		// A list reads many registers, and so has more keys.
		if c.script || !strings.HasPrefix(c.name, "eval") || len(words) < 11 || words[2][1] != "2" ||
			words[3][1] != election {
			continue
		}
		if strings.HasPrefix(words[8][1], holder) {
			at = append(at, c.at)
		}
	}

	return at
}

// seconds counts the commands in each second from a time on: those of clients, or those of scripts as well.
func (l *serverLog) seconds(from float64, n int, scripts bool) []int {
	l.mu.Lock()
	defer l.mu.Unlock()

	counts := make([]int, n)
	for _, c := range l.all {
		if k := int(math.Floor(c.at - from)); k >= 0 && k < n && c.name != "monitor" && (scripts || !c.script) {
			counts[k]++
		}
	}

	return counts
}

// even fails if clients sent more than three times the mean in some second. It returns false if the server, or the
// machine, stalled: it ran no command for a second in which many members renewed their leases.
func (l *serverLog) even(t *testing.T, from float64, n int) bool {
	t.Helper()
	counted, err := l.spread(t, from, n)
	if err != nil {
		t.Error(err)
	}

	return counted
}

// spread returns an error if clients sent more than three times the mean in some second, and false if the server
// stalled.
func (l *serverLog) spread(t *testing.T, from float64, n int) (counted bool, err error) {
	t.Helper()
	counts := l.seconds(from, n, false)
	sum := 0
	for _, c := range counts {
		sum += c
	}

	mean := float64(sum) / float64(n)
	top := slices.Max(counts)
	t.Logf("%d commands, %.1f a second, at most %d: %v", sum, mean, top, counts)
	t.Logf("with those of scripts: %v", l.seconds(from, n, true))

	if slices.Contains(counts[n/2:], 0) {
		t.Logf("the server stood still: this does not count")
		return false, nil
	}

	if float64(top) > 3*mean {
		return true, fmt.Errorf("%d commands in second %d, the mean is %.1f", top, slices.Index(counts, top), mean)
	}
	return true, nil
}

// now returns the server's time.
func (r *redisServer) now() float64 {
	r.t.Helper()
	parts := strings.Fields(r.cli("TIME"))
	if len(parts) != 2 {
		r.t.Fatalf("TIME: %q", parts)
	}

	seconds, _ := strconv.ParseFloat(parts[0], 64)
	micros, _ := strconv.ParseFloat(parts[1], 64)
	return seconds + micros/1e6
}

// served is a command that a server has run.
type served struct {
	at     float64 // seconds of the server's clock
	name   string
	line   string
	script bool // called by a script, not by a client
}

var monitorLine = regexp.MustCompile(`^\+?(\d+\.\d+) \[\d+ (\S+?)\] "([^"]*)"`)

var monitorWord = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
