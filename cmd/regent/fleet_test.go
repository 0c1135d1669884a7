package main

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// command that a server has run for a client.
type served struct {
	at   float64 // seconds of the server's clock
	name string
	lua  bool // called by a script
}

// serverLog is all commands that a Redis server runs, as the server itself reports them.
type serverLog struct {
	mu  sync.Mutex
	all []served
}

var monitorLine = regexp.MustCompile(`^\+?(\d+\.\d+) \[\d+ (\S+?)\] "([^"]*)"`)

// monitor has a server report every command from now on.
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

	l := &serverLog{}
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
				l.all = append(l.all, served{at, strings.ToLower(m[3]), m[2] == "lua"})
				l.mu.Unlock()
			}
		}
	}()
	r.t.Cleanup(func() { _ = conn.Close(); <-done })
	return l
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

// seconds counts the commands of clients in each second from a time on.
func (l *serverLog) seconds(from float64, n int, lua bool) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]int, n)
	for _, c := range l.all {
		if k := int(math.Floor(c.at - from)); k >= 0 && k < n && c.name != "time" && (lua || !c.lua) {
			counts[k]++
		}
	}
	return counts
}

func TestMeasure(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("FLEET"))
	if n == 0 {
		t.Skip()
	}
	r := startRedis(t)
	log := r.monitor()
	from := r.now()
	var nodes []*daemon
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		nodes = append(nodes, launch(t, name, command(t, nil, serveArgs(t, name, r.address(), append([]string{"--profile", "fleet"}, strings.Fields(os.Getenv("FLEETARGS"))...)...)...), nil))
	}
	t.Logf("started %v", r.now()-from)
	<-time.After(31 * time.Second)
	for _, lua := range []bool{false, true} {
		s := log.seconds(from, 30, lua)
		sum := 0
		for _, x := range s {
			sum += x
		}
		t.Logf("lua %v: sum %d mean %.1f max %d: %v", lua, sum, float64(sum)/30, slices.Max(s), s)
	}
	kinds := map[string]int{}
	for _, c := range log.all {
		kinds[fmt.Sprint(c.lua, c.name)]++
	}
	t.Log(kinds)
	for _, d := range nodes {
		if l := d.said("became leader|store warn|store unre"); len(l) > 0 {
			t.Log(d.name, l)
		}
	}
	for _, d := range nodes {
		_ = d.cmd.Process.Kill()
	}
}
