package browser

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// shared is the browser of all tests. Each test has a tab, with cookies and storage of its own.
var shared struct {
	once  sync.Once
	ctx   context.Context
	close []context.CancelFunc
	err   error
}

func openBrowser() (context.Context, error) {
	shared.once.Do(func() {
		path, err := exec.LookPath("chromium")
		if err != nil {
			shared.err = fmt.Errorf("%w: 'make need' installs it", err)
			return
		}

		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
			chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(deadline))
		allocator, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, closeBrowser := chromedp.NewContext(allocator)
		shared.ctx = ctx
		shared.close = []context.CancelFunc{closeBrowser, closeAllocator}
		shared.err = chromedp.Do(ctx)
	})

	return shared.ctx, shared.err
}

func closeBrowser() {
	for _, f := range shared.close {
		f()
	}
}

// tab is a tab of the browser. It keeps what must not be: messages of the console, and requests to other hosts.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string
	outside  []string
	refused  bool // answers that are errors are expected: the browser writes each into the console
}

// newTab opens a tab.
func newTab(t *testing.T) *tab {
	t.Helper()
	browser, err := openBrowser()
	if err != nil {
		t.Fatal(err)
	}

	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)

	b := &tab{t: t, ctx: ctx}
	b.run() // opens it
	messages := chromedp.Console(ctx)
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}

	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.heard(m)
		}
	}()
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			b.sent(r.Request.URL)
		}
	}()
	t.Cleanup(b.verdict)

	return b
}

// heard keeps a message of the console.
func (b *tab) heard(m chromedp.ConsoleMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if m.Source != "network" || !b.refused {
		b.messages = append(b.messages, fmt.Sprintf("%v (%s) %s:%d", m, m.Source, m.URL, m.Line))
	}
}

// sent keeps a request to another host.
func (b *tab) sent(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if u, err := url.Parse(address); err != nil || u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
		b.outside = append(b.outside, address)
	}
}

// verdict fails the test if the console has a message, or if a request went to another host.
func (b *tab) verdict() {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, m := range b.messages {
		b.t.Errorf("the console has: %s", m)
	}
	for _, u := range b.outside {
		b.t.Errorf("a request to another host: %s", u)
	}
}

// expectRefusals lets the console have answers that are errors.
func (b *tab) expectRefusals() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = true
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open opens the page of a node, and waits until it is live.
func (b *tab) open(address string) {
	b.t.Helper()
	b.run(chromedp.Navigate(address))
	b.wait("the page is live", `document.getElementById('live')?.dataset.state === 'live'`)
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}

	return value
}

// wait waits until an expression is true in the page.
func (b *tab) wait(what, expression string) {
	b.t.Helper()
	b.within(deadline, what, expression)
}

// within waits for some time until an expression is true in the page.
func (b *tab) within(limit time.Duration, what, expression string) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if eval[bool](b, "Promise.resolve("+expression+").then(x => !!x)") {
			return
		}
	}

	b.t.Fatalf("waited %v in vain until %s: %s\n%s", limit, what, expression, b.text("main"))
}

// text returns the text of the first element that matches, as a user sees it.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, selector))
}

// shows waits until the text of an element contains all of the words.
func (b *tab) shows(selector string, words ...string) {
	b.t.Helper()
	for _, w := range words {
		b.wait(fmt.Sprintf("%s shows %q", selector, w),
			fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? '').includes(%q)`, selector, w))
	}
}

// click clicks an element as a user does: it must be visible, and not disabled.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := chromedp.CSS(selector)
	b.wait(selector+" can be clicked", fmt.Sprintf(`document.querySelector(%q)?.disabled !== true`, selector))
	b.run(chromedp.ScrollIntoView(at), chromedp.Click(at))
}

// press sends keys to whatever has the focus.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(strings.Join(keys, "")))
}

// look sets the size of the window, and what the user prefers.
func (b *tab) look(width, height int64, scheme, motion string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}
	size := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1,
		Mobile: width < 500}
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		b.t.Fatal(err)
	}

	media := emulation.SetEmulatedMediaParams{Features: features}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
}
