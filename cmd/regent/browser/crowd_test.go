package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// crowd is a cluster of a size: the answers of a real node, made larger on their way.
type crowd struct {
	members, elections, events int

	asked atomic.Int64 // how often the page has asked for everything
}

// TestCrowd compares the page of 200 members, 100 elections and 5,000 events with that of 3 members: what an update
// costs, in time of a processor. How often frames come depends on what else the machine does, so that they are
// reported and nothing else.
func TestCrowd(t *testing.T) {
	c := newCluster(t, "", "node-a")
	n, _ := c.leader("")
	small, large := &crowd{members: 3, elections: 3, events: 50}, &crowd{members: 200, elections: 100, events: 5000}
	few := openCrowd(t, n, small)
	one := few.update(small)
	few.run(chromedp.Navigate("about:blank"))

	b := openCrowd(t, n, large)
	b.wait("the timeline has past terms", `document.querySelectorAll('.lane .gap').length > 50`)
	t.Run("only_what_can_be_seen_is_in_the_document", func(t *testing.T) {
		for selector, most := range map[string]int{".lane": 20, ".event": 40, "*": 20000} {
			if got := eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector)); got > most {
				t.Errorf("the document has %d elements %s, at most %d were expected", got, selector, most)
			}
		}
	})

	t.Run("an_update_changes_elements_and_makes_none", func(t *testing.T) {
		b.run(chromedp.Evaluate[chromedp.Void](`window.made = 0;
			new MutationObserver(all => all.forEach(m => m.addedNodes.forEach(n => {
				if (n.nodeType === 1 && !n.closest('#events, #axis')) window.made++;
			}))).observe(document.body, {subtree: true, childList: true})`))
		b.update(large)
		if made := eval[int](b, `window.made`); made > 50 { // parts that have come into view
			t.Errorf("%d elements were made, and nothing has changed", made)
		}
	})

	t.Run("an_update_costs_less_than_the_size_says", func(t *testing.T) {
		all := b.update(large)
		size := float64(large.members+large.elections) / float64(small.members+small.elections)
		ratio := float64(all) / float64(one)
		t.Logf("an update takes %v with %d members and %d elections, %v with %d and %d: %.1f times as much, for %.0f "+
			"times the size", all.Round(10*time.Microsecond), large.members, large.elections,
			one.Round(10*time.Microsecond), small.members, small.elections, ratio, size)
		if ratio > size/6 {
			t.Errorf("an update takes %.1f times as long, for %.0f times the size", ratio, size)
		}
	})

	t.Run("frames_while_everything_moves", func(t *testing.T) {
		frames, work, long := measure(b)
		t.Logf("%d frames, p50 %v, p95 %v; work of the page for each %v; %d tasks of more than 50 ms", len(frames),
			frames[len(frames)/2], frames[len(frames)*95/100], work, long)
	})
}

// openCrowd opens the page of a crowd.
func openCrowd(t *testing.T, n *node, c *crowd) *tab {
	t.Helper()
	server := httptest.NewServer(c.handler(t, n))
	t.Cleanup(server.Close)

	b := newTab(t)
	b.look(1280, 900, "light", "no-preference")
	b.open(server.URL)
	for part, count := range map[string]int{"elections": c.elections, "members": c.members} {
		b.wait("all "+part, fmt.Sprintf(`document.querySelectorAll('#%s .rows .row').length === %d`, part, count))
	}
	b.wait("the events", fmt.Sprintf(`Number(document.getElementById('events-count').innerText) >= %d`, c.events))

	return b
}

// update returns what an update of the page costs, in time of a processor: scripts, styles and layout.
func (b *tab) update(c *crowd) time.Duration {
	b.t.Helper()
	const updates = 20
	first := c.asked.Load()
	_, before := b.worked()
	wait(b.t, "the page asks again and again", func() bool { return c.asked.Load() >= first+updates })

	_, after := b.worked()
	return (after - before) / time.Duration(c.asked.Load()-first)
}

// measure scrolls and zooms for two seconds. It returns how long the frames took, the shortest first, how long the
// page's thread worked for each, and how many tasks took more than 50 ms.
func measure(b *tab) (frames []time.Duration, work time.Duration, long int) {
	b.t.Helper()
	const script = `new Promise(done => {
		const lanes = document.getElementById('lane-scroll'), log = document.getElementById('events-list');
		const times = [];
		window.longTasks = 0;
		new PerformanceObserver(l => { window.longTasks += l.getEntries().length; }).observe({type: 'longtask'});
		let last = performance.now();
		const end = last + 2000;
		const frame = t => {
			times.push(t - last);
			last = t;
			lanes.scrollTop += 7;
			log.scrollTop += 40;
			scrollBy(0, times.length % 200 < 100 ? 12 : -12);
			const wheel = {deltaY: times.length % 60 < 30 ? -20 : 20, ctrlKey: true, clientX: 700, cancelable: true};
			lanes.dispatchEvent(new WheelEvent('wheel', wheel));
			if (t < end || times.length < 10) requestAnimationFrame(frame);
			else done(times);
		};
		requestAnimationFrame(frame);
	})`
	before, _ := b.worked()
	times, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	after, _ := b.worked()
	work = (after - before) / time.Duration(len(times))

	for _, ms := range times {
		frames = append(frames, time.Duration(ms*float64(time.Millisecond)))
	}
	slices.Sort(frames)

	return frames, work, eval[int](b, `window.longTasks`)
}

// worked returns how much time of a processor the page's thread has used: all of it, and for what this page decides,
// which is scripts, styles and layout.
func (b *tab) worked() (all, own time.Duration) {
	b.t.Helper()
	params := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(b.ctx, performance.Enable, params); err != nil {
		b.t.Fatal(err)
	}
	answer, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}

	found := 0
	for _, m := range answer.Metrics {
		took := time.Duration(m.Value * float64(time.Second))
		switch m.Name {
		case "TaskDuration":
			all = took
			found++
		case "ScriptDuration", "LayoutDuration", "RecalcStyleDuration":
			own += took
			found++
		}
	}
	if found != 4 {
		b.t.Fatal("the browser does not say how long the page has worked")
	}

	return all, own
}

// handler passes requests on to a node, and makes the answers larger.
func (c *crowd) handler(t *testing.T, n *node) http.Handler {
	t.Helper()
	to, err := url.Parse(n.url())
	if err != nil {
		t.Fatal(err)
	}

	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		switch r.Request.URL.Path {
		case "/v1/elections":
			c.asked.Add(1)
			return c.enlarge(r, "elections", c.elections, "name", "election")
		case "/v1/members":
			return c.enlarge(r, "members", c.members, "id", "member")
		}
		return nil
	}

	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintf(w, "id: CROWD-%d\ndata: {\"seq\": %d, \"time\": %q, \"kind\": \"cluster:node_up\", "+
				"\"node\": \"member-%03d\", \"metadata\": {\"member\": \"member-%03d\", \"from\": \"unknown\", "+
				"\"to\": \"healthy\"}}\n\n",
				i+1, i+1, time.Now().Format(time.RFC3339Nano), i%c.members, i%c.members)
			if i >= c.events { // each makes the page ask again
				_ = http.NewResponseController(w).Flush()
				<-time.After(150 * time.Millisecond)
			}
		}
	})

	return mux
}

// enlarge repeats the first object of a list in an answer, with other names.
func (c *crowd) enlarge(r *http.Response, list string, count int, key, prefix string) error {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return err
	}

	var all []any
	for i := range count {
		first, _ := body[list].([]any)[0].(map[string]any)
		one := map[string]any{}
		for k, v := range first {
			one[k] = v
		}
		one[key] = fmt.Sprintf("%s-%03d", prefix, i)
		if list == "elections" {
			one["epoch"] = 33
			one["leader"] = fmt.Sprintf("member-%03d", i%c.members)
			one["holder"] = one["leader"]
			one["terms"] = c.terms()
		}
		all = append(all, one)
	}

	body[list] = all
	b, err := json.Marshal(body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	r.ContentLength = int64(len(b))
	r.Header.Set("Content-Length", fmt.Sprint(len(b)))

	return err
}

// terms returns 32 terms, each with a gap after it.
func (c *crowd) terms() (terms []any) {
	began := time.Now().Add(-32 * time.Minute)
	for i := range 32 {
		at := began.Add(time.Duration(i) * time.Minute)
		holder := fmt.Sprintf("member-%03d", i%c.members)
		terms = append(terms, map[string]any{"epoch": i + 1, "holder": holder, "began": at,
			"ended": at.Add(50 * time.Second), "reason": "died"})
	}

	return terms
}
