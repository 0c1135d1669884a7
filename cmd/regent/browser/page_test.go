package browser

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPanels opens the page of a standby: every panel shows live data.
func TestPanels(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", "node-a", "node-b", "node-c")
	first, before, leader := c.vacate()
	epoch := before + 1
	standby := c.other(leader.name)
	refuse(t, standby, epoch)

	b := newTab(t)
	b.open(standby.url())

	t.Run("the_strip_names_the_node_and_its_store", func(t *testing.T) {
		b.shows("#fact-node", standby.name+" (standby)")
		b.shows("#fact-store", "sqlite:", "regent.db")
		b.shows("#fact-latency", "ms")
		b.shows("#fact-cluster", "healthy")
	})

	t.Run("elections_show_leader_epoch_lease_and_candidates", func(t *testing.T) {
		row := `#elections [data-election=coordinator]`
		b.shows(row, leader.name, fmt.Sprint(epoch), "of 12 s", first.name+" was asked to step down")
		b.wait("all candidates", `document.querySelectorAll('#elections .candidates li').length === 3`)
		b.wait("the bar of the lease",
			`new DOMMatrix(getComputedStyle(document.querySelector('.lease-fill')).transform).a > 0.1`)
	})

	t.Run("the_timeline_has_the_current_term", func(t *testing.T) {
		b.wait("the term", fmt.Sprintf(
			`document.querySelector('.lane[data-election=coordinator] .term.open[data-epoch="%d"]')`, epoch))
		b.shows("#legend", leader.name)
	})

	t.Run("members_show_role_health_and_heartbeats", func(t *testing.T) {
		b.wait("three members", `document.querySelectorAll('#members .rows .row').length === 3`)
		b.shows(fmt.Sprintf("[data-member=%s]", leader.name), "leader", "healthy", leader.addr)
		b.shows(fmt.Sprintf("[data-member=%s]", standby.name), "standby", "healthy", "ago")
		b.wait("heartbeats", `document.querySelector('#members .beats .good').getAttribute('d').length > 10`)
	})

	t.Run("polls_show_state_and_results", func(t *testing.T) {
		b.shows("[data-poll=shop]", "up", "every 1 s", "ok")
		b.shows("[data-poll=billing]", "down", "refused")
		b.wait("results", `document.querySelectorAll('[data-poll=shop] .run.ok').length > 0`)
		b.wait("bad results", `document.querySelectorAll('[data-poll=billing] .run.failed').length > 0`)
	})

	t.Run("tasks_show_refused_work_with_both_epochs", func(t *testing.T) {
		b.shows("#tasks-body", "done", "refused as stale")
		b.shows("#refusals-body", "1 task of node-x", fmt.Sprint(epoch-1), fmt.Sprint(epoch))
		b.shows("#duties-body", "replicate", "standing by")
	})

	t.Run("latency_shows_where_the_lease_is_lost", func(t *testing.T) {
		b.shows("#latency-text", "8.5 s loses the lease", "p50", "p99") // 12 s less 0.2 %, stopTimeout and an interval
		b.wait("the chart", `document.querySelector('#latency-chart').width > 100`)
	})

	t.Run("events_can_be_filtered_and_linked", func(t *testing.T) { events(b, standby) })
}

// refuse sends a task of a former leader to a worker, which must refuse it.
func refuse(t *testing.T, worker *node, epoch uint64) {
	t.Helper()
	body := func(epoch uint64) string {
		return fmt.Sprintf(`{"election": "coordinator", "leader": "node-x", "epoch": %d, "dispatchedMs": 0, `+
			`"tasks": [{"id": "1", "kind": "http"}]}`, epoch)
	}

	wait(t, "a worker refuses a task of a former leader", func() bool { // it may not know the epoch yet
		resp, err := http.Post(worker.url()+"/v1/tasks", "application/json", strings.NewReader(body(epoch-1)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode == http.StatusConflict && strings.Contains(string(answer), "stale")
	})
}

// events filters the log, and follows the link to an event in the address.
func events(b *tab, n *node) {
	b.shows("#events-list", "member:joined", n.name+" joined")
	b.click("#events-filter")
	b.press("leader_changed")
	b.wait("the filter hides the others", `!document.querySelector('#events-list').innerText.includes('member:joined')`)
	b.shows("#events-count", "of")

	b.click("#events-list .event")
	b.shows("#event-detail", "new_leader", "Link to this event")
	link := eval[string](b, `location.hash`)
	if !strings.HasPrefix(link, "#event=") {
		b.t.Fatalf("the address has no link: %q", link)
	}

	again := newTab(b.t)
	again.open(n.url() + "/" + link)
	again.shows("#event-detail", "coordinator:leader_changed", "new_leader")
}
