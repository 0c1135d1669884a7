package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestLooks checks the page in light and dark, wide and narrow: nothing sticks out to the right, and axe finds nothing
// that keeps somebody from reading or using it.
func TestLooks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b")
	_, _, leader := c.vacate()

	b := newTab(t)
	b.look(1280, 900, "light", "no-preference")
	b.open(leader.url())
	b.shows("#polls", "shop", "down")
	b.shows("#events-list", "became_leader")
	b.wait("the gap", `document.querySelector('.gap')`)
	b.load(axe(t))

	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 1000, 360} {
			t.Run(fmt.Sprintf("%s_%d", scheme, width), func(t *testing.T) {
				b.look(width, 900, scheme, "reduce")
				b.wait("the page fits", `document.documentElement.scrollWidth <= innerWidth`)
				dark := eval[bool](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 60`)
				if dark != (scheme == "dark") {
					t.Errorf("the page is dark: %v", dark)
				}
				b.accessible("#main")
			})
		}
	}

	t.Run("the_dialogs_too", func(t *testing.T) {
		b.click(`[data-verb=handoff]`)
		b.accessible("#action-dialog")
		b.press(kb.Escape)
		b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById('token-dialog').showModal()`))
		b.accessible("#token-dialog")
	})

	t.Run("less_motion_is_respected", func(t *testing.T) {
		moving := eval[int](b, `document.getAnimations().length`)
		if moving != 0 {
			t.Errorf("%d animations run, and the user prefers none", moving)
		}
	})
}

// axe returns the script of axe-core, which 'make need' installs.
func axe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", ".bin", "npm", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v: 'make need' installs it", err)
	}
	return string(b)
}

// load runs a script in the page.
func (b *tab) load(script string) {
	b.t.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](script + "; undefined"))
}

// accessible runs axe on a part of the page.
func (b *tab) accessible(selector string) {
	b.t.Helper()
	script := fmt.Sprintf(`axe.run(document.querySelector(%q), {resultTypes: ['violations']}).then(r => JSON.stringify(
		r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' +
		n.failureSummary)}))))`, selector)
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}

	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("axe: %s: %s\n\t%s", v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
	}
}

// TestKeyboard uses the page with keys alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b")
	first, epoch, leader := c.vacate()

	b := newTab(t)
	b.open(leader.url())
	b.wait("both terms", `document.querySelectorAll('.lane .term').length === 2`)
	focused := func(what, selector string) {
		t.Helper()
		b.wait(what+" has the focus", fmt.Sprintf(`document.activeElement?.matches(%q)`, selector))
	}

	t.Run("the_timeline_is_read_with_arrows", func(t *testing.T) {
		b.tabTo(".lane .term")
		b.shows("#inspector", "coordinator", fmt.Sprintf("Epoch %d: %s leads since", epoch+1, leader.name))
		b.press(kb.ArrowLeft)
		focused("the gap", ".lane .gap")
		b.shows("#inspector", "Nobody led for", "it stepped down")
		b.press(kb.ArrowLeft)
		b.shows("#inspector", fmt.Sprintf("Epoch %d: %s led for", epoch, first.name), "it stepped down")
		b.press(kb.End)
		b.shows("#inspector", "leads since")
	})

	t.Run("the_timeline_is_zoomed_with_plus_and_minus", func(t *testing.T) {
		wide := eval[float64](b, `document.querySelector('.lane .gap').getBoundingClientRect().left`)
		b.press("-")
		b.wait("it shows a longer time", fmt.Sprintf(
			`document.querySelector('.lane .gap').getBoundingClientRect().left > %f`, wide))
		b.press("0")
		b.wait("it shows all", `document.querySelector('[data-span=all]').getAttribute('aria-pressed') === 'true'`)
	})

	t.Run("an_action_is_done_and_the_focus_returns", func(t *testing.T) {
		b.tabTo(`#elections [data-verb=pause]`)
		b.press(kb.Enter)
		b.wait("the dialog", `document.getElementById('action-dialog').open`)
		b.press(kb.Escape)
		focused("the button", `#elections [data-verb=pause]`)
		b.press(kb.Enter)
		b.tabTo("#action-go")
		b.press(kb.Enter)
		b.shows("#action-result", "is paused")
		b.press(kb.Enter) // Close has the focus
		b.shows("#banners", "coordinator is paused")
	})

	t.Run("an_event_is_selected_with_arrows", func(t *testing.T) {
		b.tabTo("#events-list")
		b.press(kb.ArrowDown)
		b.wait("its details", `!document.getElementById('event-detail').hidden`)
		b.press(kb.Escape)
		b.wait("they are closed", `document.getElementById('event-detail').hidden`)
	})
}

// tabTo presses Tab until an element that matches has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		if eval[bool](b, fmt.Sprintf(`!!document.activeElement?.matches(%q)`, selector)) {
			return
		}
		b.press(kb.Tab)
	}

	b.t.Fatalf("Tab does not reach %s", selector)
}
