package browser

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// watchLeaders counts, after every change of the document, how many leaders the page shows for the election. A page
// that showed two, even for a frame, would say so in window.mostLeaders.
const watchLeaders = `(() => {
  window.mostLeaders = 0;
  const count = () => {
    const members = document.querySelectorAll('#members .role.leader').length;
    const open = document.querySelectorAll('.lane[data-election=coordinator] .term.open').length;
    window.mostLeaders = Math.max(window.mostLeaders, members, open);
  };
  const all = {subtree: true, childList: true, attributes: true, characterData: true};
  new MutationObserver(count).observe(document.body, all);
  count();
})()`

// TestFailover kills the leader with signal 9: its segment ends, the gap is red, and a new segment begins.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b", "node-c")
	first, epoch := c.leader("")
	standby := c.other(first.name)

	b := newTab(t)
	b.expectRefusals() // while nobody leads, polls are answered with 503
	b.open(standby.url())
	term := func(epoch uint64) string {
		return fmt.Sprintf(`document.querySelector('.lane[data-election=coordinator] .term[data-epoch="%d"]')`, epoch)
	}
	b.wait("the first term is open", term(epoch)+`?.classList.contains('open')`)
	colour := eval[string](b, `getComputedStyle(`+term(epoch)+`).backgroundColor`)
	b.run(chromedp.Evaluate[chromedp.Void](watchLeaders))

	first.kill()
	second, next := c.leader(first.name)

	t.Run("the_segment_ends_and_a_new_one_begins", func(t *testing.T) {
		b.wait("the first term has ended", term(epoch)+` && !`+term(epoch)+`.classList.contains('open')`)
		b.wait("the next term is open", term(next)+`?.classList.contains('open')`)
		b.wait("its label", fmt.Sprintf(`%s.getAttribute('aria-label').includes('Epoch %d: %s leads since')`,
			term(next), next, second.name))
		b.wait("the first term says why it ended",
			fmt.Sprintf(`%s.getAttribute('aria-label').includes('its process died')`, term(epoch)))
		if now := eval[string](b, `getComputedStyle(`+term(next)+`).backgroundColor`); now == colour {
			t.Errorf("both terms have the colour %s, and are terms of different members", now)
		}
	})

	t.Run("the_gap_between_them_is_red_and_has_its_length", func(t *testing.T) {
		gap := fmt.Sprintf(`document.querySelector('.lane[data-election=coordinator] .gap[data-epoch="%d"]')`, epoch)
		b.wait("the gap", gap)
		red := eval[bool](b, `(c => c[0] > 150 && c[1] < 130 && c[2] < 130)(getComputedStyle(`+gap+
			`).backgroundColor.match(/\d+/g).map(Number))`)
		if !red {
			t.Errorf("the gap is not red: %s", eval[string](b, `getComputedStyle(`+gap+`).backgroundColor`))
		}
		b.wait("its length", gap+`.firstChild.dataset.text.match(/^[\d.]+ (ms|s)$/)`)
		b.wait("it lies between the terms", fmt.Sprintf(`(() => {
			const [a, g, z] = [%s, %s, %s].map(e => e.getBoundingClientRect());
			return a.left < g.left && g.left <= z.left + 4;
		})()`, term(epoch), gap, term(next)))
	})

	t.Run("elections_members_and_log_show_the_new_leader", func(t *testing.T) {
		b.shows(`#elections [data-election=coordinator]`, second.name, fmt.Sprint(next), first.name+" died")
		b.shows(fmt.Sprintf("[data-member=%s]", second.name), "leader")
		b.shows("#events-list", "coordinator:", "its process died")
	})

	t.Run("an_answer_from_the_past_changes_nothing", func(t *testing.T) {
		leader := eval[string](b, fmt.Sprintf(`import('/page/state.js').then(s => {
			const old = {...s.state.elections.get('coordinator'), epoch: %d, leader: %q, holder: %q};
			s.takeElections({now: s.now(), took: 1, rank: '', elections: [old]});
			return s.state.elections.get('coordinator').leader;
		})`, epoch, first.name, first.name))
		if leader != second.name {
			t.Errorf("the page believes that %s leads, and epoch %d is over", leader, epoch)
		}
	})

	t.Run("the_page_never_showed_two_leaders", func(t *testing.T) {
		if most := eval[int](b, `window.mostLeaders`); most != 1 {
			t.Errorf("the page showed %d leaders at once", most)
		}
	})
}

// TestLeaderless pauses the election and lets its leader step down: a loud banner, and a gap that grows.
func TestLeaderless(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b")
	leader, epoch := c.leader("")
	b := newTab(t)
	b.expectRefusals()
	b.open(c.other(leader.name).url())

	body := fmt.Sprintf(`{"epoch": %d}`, epoch)
	c.post(leader, "/v1/elections/coordinator/pause", body)
	b.shows("#banners .warning", "coordinator is paused", leader.name+" goes on")

	c.post(leader, "/v1/elections/coordinator/step-down", body)
	b.shows("#banners .danger", "Nobody leads coordinator for 2 s: it is paused; resume it")
	b.shows(`#elections [data-election=coordinator]`, "nobody", "vacant")
	b.wait("the gap is open", `document.querySelector('.lane .gap.open')`)
	b.wait("the title warns", `document.title.includes('nobody leads')`)
	before := eval[float64](b, `document.querySelector('.lane .gap.open').getBoundingClientRect().width`)
	b.wait("the gap grows", fmt.Sprintf(`document.querySelector('.lane .gap.open').getBoundingClientRect().width > %f`,
		before))

	c.post(leader, "/v1/elections/coordinator/resume", body)
	b.wait("the gap has ended", `!document.querySelector('.lane .gap.open') && document.querySelector('.lane .gap')`)
	b.wait("no banner is left", `document.querySelectorAll('#banners > *').length === 0`)
}

// TestFinished runs a program once in an election of its own: that it has ended is no alarm.
func TestFinished(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a")
	c.leader("")
	store := c.nodes["node-a"].args[4]
	run := exec.Command(binary, "run", "nightly", "--node", "job", "--store", store, "--", "true")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	b := newTab(t)
	b.open(c.nodes["node-a"].url())
	b.shows(`#elections [data-election=nightly]`, "finished", "the work of job ended")
	b.wait("its lane", `document.querySelector('.lane[data-election=nightly] .term')`)
	if eval[bool](b, `!!document.querySelector('.lane[data-election=nightly] .gap')`) {
		t.Error("the lane of a finished election has a gap")
	}
	if n := eval[int](b, `document.querySelectorAll('#banners > *').length`); n != 0 {
		t.Errorf("a finished election has %d banners: %s", n, b.text("#banners"))
	}
	if title := eval[string](b, `document.title`); strings.Contains(title, "nobody leads") {
		t.Error(title)
	}
}
