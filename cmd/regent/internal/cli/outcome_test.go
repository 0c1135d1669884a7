package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/elections"
)

// stepDown returns the step-down of an election that a leads and b could lead.
func stepDown(wait, paused bool) *steering {
	return &steering{
		session:      &session{cluster: &cluster.Store{}},
		steerOptions: steerOptions{verb: cluster.StepDown, epoch: 7, wait: wait},
		election: cluster.Election{
			Name: "x", State: elections.Led, Leader: "a", Holder: "a", Epoch: 7, Paused: paused,
			Candidates: []cluster.Candidate{{ID: "b", CanLead: true}},
		},
	}
}

// TestStepDownOfPausedElection checks that a step-down which would leave an election without a leader says so.
func TestStepDownOfPausedElection(t *testing.T) {
	if why := stepDown(true, true).impossible(t.Context()); !strings.Contains(why, "election x is paused") {
		t.Errorf("with --wait it is not refused: %q", why)
	}

	for _, v := range []*steering{stepDown(false, true), stepDown(true, false), stepDown(false, false)} {
		if why := v.impossible(t.Context()); why != "" {
			t.Errorf("wait %v, paused %v: %s", v.wait, v.election.Paused, why)
		}
	}

	if text := stepDown(false, true).consequence(); !strings.Contains(text, "nobody leads until 'regent resume x'") {
		t.Errorf("the question does not name the pause: %s", text)
	}
	if text := stepDown(false, false).consequence(); !strings.Contains(text, "another candidate takes over: b") {
		t.Errorf("%s", text)
	}
}

// TestHandoffToFrozenMember checks that a handoff to a process which accepts connections and answers nothing is refused
// before the term ends.
func TestHandoffToFrozenMember(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()

	asked, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	v := stepDown(true, false)
	v.verb, v.to = cluster.HandOff, "b"
	v.election.Candidates[0].Addr = frozen.Addr().String()
	v.session = &session{cluster: &cluster.Node{Base: asked, Client: &http.Client{}}}
	if why := v.impossible(t.Context()); !strings.Contains(why, "b accepts connections at") {
		t.Errorf("it is not refused: %q", why)
	}
}

func TestEpochThatHasNotBegun(t *testing.T) {
	v := stepDown(false, false)
	v.epoch = 99
	if why := v.impossible(t.Context()); !strings.Contains(why, "epoch 99 has not begun: it is 7 now") {
		t.Errorf("%q", why)
	}
}

// TestSettleTime checks that a verb which ended in an error does not outlast its --timeout by more than a second.
func TestSettleTime(t *testing.T) {
	for _, c := range []struct{ timeout, passed, least, most time.Duration }{
		{4 * time.Second, 4 * time.Second, leastSettle, leastSettle},
		{4 * time.Second, time.Second, leastSettle, 3 * time.Second},
		{time.Hour, 0, settleTimeout, settleTimeout},
	} {
		v := stepDown(false, false)
		v.timeout = c.timeout
		v.began = time.Now().Add(-c.passed)
		if got := v.settleTime(); got < c.least || got > c.most {
			t.Errorf("%v after %v of %v", got, c.passed, c.timeout)
		}
	}
}

// TestAdviceForSlowStore asks a node that answers by itself, and whose store hangs.
func TestAdviceForSlowStore(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/elections" {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{"node": "a", "election": "x", "epoch": 2, "leader": "a"}`))
	}))
	defer node.Close()

	var out, errs strings.Builder
	cmd := electionsCmd(&Env{Out: &out, Errs: &errs})
	cmd.SetArgs([]string{"--addr", node.URL, "--timeout", "1s"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "The node itself answers") ||
		strings.Contains(err.Error(), "Is the node running there?") {
		t.Errorf("%v", err)
	}
}
