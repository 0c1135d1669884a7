package browser

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestReplay loses the connection in two ways. If the node keeps the events that were missed, the page gets them; if it
// was restarted, the page says that events were lost, and keeps those that it had.
func TestReplay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b")
	leader, epoch := c.leader("")
	other := c.other(leader.name)
	line := newLine(t, other.addr)

	b := newTab(t)
	b.expectRefusals()
	b.open("http://" + line.address)
	b.shows("#events-list", "coordinator:leader_changed")

	t.Run("a_lost_connection_is_shown_and_what_was_missed_comes_later", func(t *testing.T) {
		line.cut()
		b.shows("#banners .danger", other.name+" does not answer", "what it said last")
		if state := eval[string](b, `document.getElementById('live').dataset.state`); state != "stale" {
			t.Errorf("the banner says that the node does not answer, and the strip says %q", state)
		}

		c.post(leader, "/v1/elections/coordinator/handoff", fmt.Sprintf(`{"epoch": %d, "to": %q}`, epoch, other.name))
		c.leader(leader.name)
		line.mend()

		b.wait("the page is live again", `document.getElementById('live').dataset.state === 'live'`)
		b.shows("#events-list", "coordinator:became_leader", other.name+" leads coordinator after "+leader.name)
		text := b.text("#events-list")
		if strings.Count(text, "member:joined") != 1 || strings.Contains(text, "events lost") {
			t.Errorf("each event must be there once, and none was lost: %s", text)
		}
	})

	t.Run("events_lost_with_a_restart_are_noted", func(t *testing.T) {
		before := eval[int](b, `Number(document.getElementById('events-count').innerText)`)
		other.stop()
		other.start()
		b.shows("#events-list", "events lost", "coordinator:became_leader")
		b.wait("new events come", fmt.Sprintf(`Number(document.getElementById('events-count').innerText) > %d`, before))
		b.wait("no banner is left", `document.querySelectorAll('#banners > *').length === 0`)
	})
}

// line forwards connections to a node, and can be cut.
type line struct {
	address string
	to      string

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })

	l := &line{address: listener.Addr().String(), to: to}
	t.Cleanup(l.cut)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			l.join(in)
		}
	}()

	return l
}

// join forwards a connection, unless the line is cut.
func (l *line) join(in net.Conn) {
	out, err := net.Dial("tcp", l.to)
	l.mu.Lock()
	defer l.mu.Unlock()

	if err != nil || l.down {
		in.Close()
		if out != nil {
			out.Close()
		}
		return
	}

	l.conns = append(l.conns, in, out)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	go pass(out, in)
	go pass(in, out)
}

// cut ends all connections, and refuses new ones.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.down = true
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
