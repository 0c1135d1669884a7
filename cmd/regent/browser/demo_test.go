package browser

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// demo is a running 'regent demo'.
type demo struct {
	page string // the address of its page

	mu  sync.Mutex
	out strings.Builder
}

// newDemo starts a demo without a terminal, and waits for the address of its page.
func newDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"demo", "--for", "4m"}, args...)...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	d := &demo{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(pipe); in.Scan(); {
			d.mu.Lock()
			d.out.WriteString(in.Text() + "\n")
			d.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("the demo said:\n%s", d.said())
		}
	})

	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
	wait(t, "the demo prints the address of its page", func() bool {
		d.page = address.FindString(d.said())
		return d.page != ""
	})
	return d
}

func (d *demo) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// fault presses a button of the demo, and waits until its fault is over and the page shows some words.
func (b *tab) fault(id string, words ...string) {
	b.t.Helper()
	const over = `document.getElementById('demo').dataset.playing === ''`
	b.within(2*deadline, "no fault is played", over)
	b.click(fmt.Sprintf(`#demo [data-fault=%s]`, id))
	b.shows("#demo-lines", words...)
	b.within(2*deadline, "the fault is over", over) // the demo waits for a minute itself
}

// leads returns which member leads, and its epoch, as the page shows them.
func (b *tab) leads() string {
	b.t.Helper()
	return eval[string](b, `import('/page/state.js').then(s => {
		const e = s.state.elections.get('coordinator');
		return e.leader + ' ' + e.epoch;
	})`)
}

// leadsAfter waits until the page shows a term after one that leads has returned.
func (b *tab) leadsAfter(before string) {
	b.t.Helper()
	b.wait("the page shows the next term", fmt.Sprintf(`import('/page/state.js').then(s => {
		const e = s.state.elections.get('coordinator');
		return e.leader && e.leader + ' ' + e.epoch !== %q;
	})`, before))
}

// TestDemoButtons plays every fault of the demo with its button on the page.
func TestDemoButtons(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	b := newTab(t)
	b.expectRefusals() // while nobody leads, polls are answered with 503
	b.look(1280, 900, "light", "no-preference")
	b.open(d.page)

	t.Run("the_page_tells_the_tour_as_the_terminal_does", func(t *testing.T) { b.shows("#demo-lines", "leads, epoch") })

	// A button that is pressed while the tour begins a fault is refused.
	b.within(2*deadline, "the tour is over",
		`(document.querySelector('#demo-lines')?.innerText ?? '').includes('never two at once')`)
	b.fault("pause", "paused: nobody claims")

	t.Run("a_paused_election_is_shown_and_resumed", func(t *testing.T) {
		b.shows("#banners", "coordinator is paused")
		b.fault("kill", "nobody takes over: the election is paused")
		b.shows("#banners", "Nobody leads coordinator")
		b.fault("handoff", "resume it first")
		b.fault("resume", "resumed")
		b.wait("no banner is left", `document.querySelectorAll('#banners > *').length === 0`)
	})

	for _, c := range []struct{ id, says string }{{"kill", "kill -9 node-"}, {"handoff", "regent handoff coordinator"},
		{"freeze", "kill -STOP node-"}, {"hang", "takes no writes from now on"}} {
		t.Run(c.id+"_changes_the_leader", func(t *testing.T) {
			before := b.leads()
			b.fault(c.id, c.says)
			measured := regexp.MustCompile(`(?s)` + regexp.QuoteMeta(c.says) + `.*leads, epoch \d+: [\d.]+ m?s later`)
			if !measured.MatchString(d.said()) {
				t.Errorf("the takeover was not measured")
			}
			b.leadsAfter(before)
			b.shows("#demo-lines", "later")
		})
	}

	t.Run("light_dark_wide_and_narrow", func(t *testing.T) {
		b.load(axe(t))
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 360} {
				b.look(width, 900, scheme, "reduce")
				b.wait("the page fits", `document.documentElement.scrollWidth <= innerWidth`)
				b.accessible("#demo")
				b.picture(fmt.Sprintf("demo-%s-%d", scheme, width))
			}
		}
	})

	t.Run("a_node_has_no_such_button", func(t *testing.T) { withoutButtons(t, b, d) })
}

// withoutButtons opens the page of a node of the demo itself.
func withoutButtons(t *testing.T, b *tab, d *demo) {
	t.Helper()
	node := regexp.MustCompile(`--addr (127\.0\.0\.1:\d+)`).FindStringSubmatch(d.said())
	if node == nil {
		t.Fatal("the demo shows no command with the address of a node")
	}
	resp, err := http.Post("http://"+node[1]+"/demo/faults/kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a node answers %d %s", resp.StatusCode, body)
	}

	b.open("http://" + node[1])
	if eval[bool](b, `!!document.getElementById('demo')`) {
		t.Error("the page of a node has the buttons of the demo")
	}
}

// TestDemoOnRedis cuts the leader of a demo off from a real Redis, and hangs the store.
func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	d := newDemo(t, "--store", redisServer(t))
	b := newTab(t)
	b.expectRefusals()
	b.open(d.page)

	b.fault("cut", "is cut off from the store", "later", "reaches the store again")
	before := b.leads()
	b.fault("hang", "the store takes no writes", "has stopped its work", "takes writes again", "later")
	b.leadsAfter(before)
}

// redisServer starts a Redis, and returns its address as a store.
func redisServer(t *testing.T) string {
	t.Helper()
	address := freePort()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
		"--maxmemory-policy", "noeviction", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: 'make need' installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	wait(t, "Redis serves", func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})

	return "redis://" + address
}
