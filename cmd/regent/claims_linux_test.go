package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// claim says that a node led at an instant between two times on CLOCK_BOOTTIME.
type claim struct {
	Node   string        `json:"node"`
	Epoch  uint64        `json:"epoch"`
	Before time.Duration `json:"before"`
	After  time.Duration `json:"after"`
}

// ledger keeps the claims of all nodes of one election.
type ledger struct {
	mu   sync.Mutex
	all  []claim
	news chan struct{} // closed and replaced with each claim
}

func newLedger() *ledger { return &ledger{news: make(chan struct{})} }

func (l *ledger) add(c claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, c)
	close(l.news)
	l.news = make(chan struct{})
}

// parse adds a claim that a program has written.
func (l *ledger) parse(line []byte) {
	var c claim
	if json.Unmarshal(line, &c) == nil {
		l.add(c)
	}
}

// await waits for a claim that begins after a time, and returns the first of them.
func (l *ledger) await(from time.Duration, limit <-chan time.Time) (claim, error) {
	for {
		l.mu.Lock()
		news := l.news
		i := slices.IndexFunc(l.all, func(c claim) bool { return c.Before >= from })
		var found claim

		if i >= 0 {
			found = l.all[i]
		}
		l.mu.Unlock()

		if i >= 0 {
			return found, nil
		}
		select {
		case <-news:
		case <-limit:
			return claim{}, fmt.Errorf("nobody leads")
		}
	}
}

// last returns the newest claim.
func (l *ledger) last() claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[len(l.all)-1]
}

// within returns the claims whose leader led between two times.
func (l *ledger) within(from, to time.Duration) []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(c claim) bool { return c.Before < from || c.After > to })
}

// session is the part of a term that claims prove: its node led all the time from first to last.
type session struct {
	node        string
	epoch       uint64
	first, last time.Duration
}

// sessions returns what is proved of each term. A term is unbroken, so its node led from its first
// claim to its last.
func (l *ledger) sessions() []session {
	l.mu.Lock()
	defer l.mu.Unlock()

	var all []session
	for _, c := range l.all {
		i := slices.IndexFunc(all, func(s session) bool { return s.node == c.Node && s.epoch == c.Epoch })
		if i < 0 {
			all = append(all, session{node: c.Node, epoch: c.Epoch, first: c.After, last: c.Before})
			continue
		}

		all[i].first = min(all[i].first, c.After)
		all[i].last = max(all[i].last, c.Before)
	}

	return all
}

// overlaps returns the pairs of terms that were in force at the same time.
func overlaps(all []session) (found []string) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if max(a.first, b.first) < min(a.last, b.last) {
				found = append(found, fmt.Sprintf("%+v and %+v lead at once", a, b))
			}
		}
	}

	return found
}

// fallen returns the pairs of terms of which the later one has no higher epoch.
func fallen(all []session) (found []string) {
	all = slices.SortedFunc(slices.Values(all), func(a, b session) int { return cmp.Compare(a.first, b.first) })
	for i := range all[1:] {
		if all[i+1].epoch <= all[i].epoch {
			found = append(found, fmt.Sprintf("%+v comes after %+v", all[i+1], all[i]))
		}
	}

	return found
}

// pollLeader asks a node every 20 ms whether it leads, until quit is closed. It asks over one
// connection, without a client's machinery, since many nodes are asked at once.
func pollLeader(d *daemon, l *ledger, quit <-chan struct{}) {
	address := strings.TrimPrefix(d.url, "http://")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	var conn net.Conn
	var answers *bufio.Reader
	for {
		select {
		case <-quit:
			if conn != nil {
				_ = conn.Close()
			}
			return
		case <-tick.C:
		}

		if conn == nil {
			c, err := net.Dial("tcp", address)
			if err != nil {
				continue
			}

			conn = c
			answers = bufio.NewReader(c)
		}

		if err := askLeader(d.name, address, conn, answers, l); err != nil {
			_ = conn.Close()
			conn = nil
		}
	}
}

func askLeader(node, address string, conn net.Conn, answers *bufio.Reader, l *ledger) error {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}

	before := boottime()
	if _, err := fmt.Fprintf(conn, "GET /leader HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
		return err
	}

	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}

	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}

	after := boottime()

	if response.StatusCode == http.StatusOK {
		var about struct{ Epoch uint64 }
		if err := json.Unmarshal(body, &about); err != nil {
			return err
		}
		l.add(claim{Node: node, Epoch: about.Epoch, Before: before, After: after})
	}

	return nil
}

// boottime is the clock of all processes on this machine.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}

func TestOverlaps(t *testing.T) {
	at := func(node string, epoch uint64, times ...time.Duration) *ledger {
		l := newLedger()
		for _, x := range times {
			l.add(claim{Node: node, Epoch: epoch, Before: 10 * x, After: 10*x + 1})
		}
		return l
	}
	for name, c := range map[string]struct {
		other *ledger
		want  int
	}{
		"two_nodes_that_lead_at_once_are_found":                  {at("b", 2, 2, 4), 1},
		"two_terms_of_one_node_at_once_are_found":                {at("a", 2, 2, 4), 1},
		"a_node_that_leads_after_another_is_not":                 {at("b", 2, 3, 4), 0},
		"claims_of_one_term_do_not_count_against_each_other":     {at("a", 1, 2, 4), 0},
		"a_single_claim_proves_no_time_at_which_its_node_leads":  {at("b", 2, 2), 0},
		"two_claims_around_the_end_of_another_term_are_an_error": {at("b", 2, 2, 3), 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := at("a", 1, 1, 3)
			l.all = append(l.all, c.other.all...)
			if found := overlaps(l.sessions()); len(found) != c.want {
				t.Error(found)
			}
		})
	}
}
