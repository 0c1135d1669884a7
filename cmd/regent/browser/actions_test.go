package browser

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

const secret = "a-token-of-more-than-thirty-two-characters"

// TestActions does every action of the page on nodes with a token.
func TestActions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, secret, "node-a", "node-b")
	leader, epoch := c.leader("")
	other := c.other(leader.name)

	b := newTab(t)
	b.expectRefusals() // 401 and 409
	b.open(other.url())
	row := `#elections [data-election=coordinator]`

	t.Run("without_the_token_there_are_no_events", func(t *testing.T) {
		b.shows("#events-note", "need the cluster’s token")
	})

	t.Run("the_dialog_says_what_happens_and_shows_the_command", func(t *testing.T) {
		b.click(row + ` [data-verb=pause]`)
		b.shows("#action-dialog", "Pause coordinator", leader.name+" goes on leading", "regent pause coordinator")
		b.click("#action-cancel")
		b.wait("it is closed", `!document.getElementById('action-dialog').open`)
	})

	t.Run("a_wrong_token_is_asked_for_again", func(t *testing.T) {
		b.click(row + ` [data-verb=pause]`)
		b.click("#action-go")
		b.wait("it asks", `document.getElementById('token-dialog').open`)
		b.press("wrong", kb.Enter)
		b.shows("#token-result", "refused that token")
	})

	t.Run("the_token_is_asked_for_once", func(t *testing.T) {
		b.press(secret, kb.Enter)
		b.shows("#action-result", "coordinator is paused")
		b.click("#action-cancel")
		b.shows("#banners", "coordinator is paused")
		b.shows("#events-list", "member:joined")

		b.click(row + ` [data-verb=resume]`)
		b.shows("#action-dialog", "regent resume coordinator")
		b.click("#action-go")
		b.shows("#action-result", "is resumed")
		b.click("#action-cancel")
	})

	t.Run("the_token_is_in_memory_alone", func(t *testing.T) {
		kept := eval[string](b, `JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href,
			[...document.querySelectorAll('input')].map(i => i.value)])`)
		if want := fmt.Sprintf(`[{},{},"","%s/",["","","",""]]`, other.url()); kept != want {
			t.Errorf("the page keeps %s", kept)
		}
	})

	t.Run("a_poll_is_run_now", func(t *testing.T) {
		b.click(`[data-poll=shop] [data-verb=run]`)
		b.shows("#action-dialog", "Run shop now", "regent polls run shop")
		b.click("#action-go")
		b.shows("#action-result", "ok on node-")
		b.click("#action-cancel")
	})

	t.Run("the_leader_hands_over", func(t *testing.T) {
		b.click(row + ` [data-verb=handoff]`)
		b.shows("#action-dialog", other.name+" claims it next", "regent handoff coordinator --to "+other.name)
		b.click("#action-go")
		b.shows("#action-result", "Done in")
		b.click("#action-cancel")
		b.shows(row, other.name, fmt.Sprint(epoch+1), leader.name+" was asked to hand over")
	})

	t.Run("the_commands_that_are_shown_exist", func(t *testing.T) {
		for _, command := range []string{"pause", "resume", "step-down", "handoff", "polls run"} {
			args := append(strings.Fields(command), "--help")
			if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
				t.Errorf("regent %s --help: %v\n%s", command, err, out)
			}
		}
	})

	t.Run("an_epoch_that_has_moved_is_shown", func(t *testing.T) { moved(b, c, row, leader, epoch+1) })
}

// moved opens a dialog, lets another term begin, and confirms the dialog: nothing must happen.
func moved(b *tab, c *cluster, row string, leader *node, epoch uint64) {
	b.click(row + ` [data-verb=step-down]`)
	b.shows("#action-dialog", "Step down from coordinator", "regent step-down coordinator")
	c.post(leader, "/v1/elections/coordinator/handoff", fmt.Sprintf(`{"epoch": %d, "to": %q}`, epoch, leader.name))
	c.leader(c.other(leader.name).name)

	b.click("#action-go")
	b.shows("#action-result", "Nothing was changed", fmt.Sprintf("you saw epoch %d, and it is %d now (409)",
		epoch, epoch+1))
	if e := c.coordinator(leader); e.Leader != leader.name || e.Epoch != epoch+1 {
		b.t.Errorf("the refused verb has changed the election: %+v", e)
	}

	b.shows(row, fmt.Sprint(epoch+1))
	b.click("#action-go") // look again
	b.shows("#action-what", leader.name+" stops its duties", fmt.Sprintf("epoch %d", epoch+2))
	b.click("#action-go")
	b.shows("#action-result", "Done in")
}
