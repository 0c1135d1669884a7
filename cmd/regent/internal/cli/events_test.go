package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestEventsEnd prints the events that a node keeps. The node says where they end: neither a pause among them nor new
// events that never cease change what is printed.
func TestEventsEnd(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send := func(format string, args ...any) {
			fmt.Fprintf(w, format, args...)
			_ = http.NewResponseController(w).Flush()
		}
		event := func(seq int) {
			send("id: x-%d\nevent: a:b\ndata: {\"kind\":\"a:b\",\"seq\":%d,\"node\":\"n\"}\n\n", seq, seq)
		}

		send(": events of this node\n\n")
		event(1)
		<-time.After(700 * time.Millisecond) // the node is slow
		event(2)
		send(": end of the kept events\n\n")
		for seq := 3; r.Context().Err() == nil; seq++ {
			event(seq)
			<-time.After(10 * time.Millisecond)
		}
	}))
	defer node.Close()

	var out, errs strings.Builder
	cmd := eventsCmd(&Env{Out: &out, Errs: &errs})
	cmd.SetArgs([]string{"--addr", node.URL, "-o", "json"})
	began := time.Now()
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), `"seq"`); got != 2 {
		t.Errorf("%d events after %v:\n%s%s", got, time.Since(began), out.String(), errs.String())
	}
}

func TestMistypedVariableIsNamed(t *testing.T) {
	var out, errs strings.Builder
	cmd := eventsCmd(&Env{Out: &out, Errs: &errs, Environ: []string{"REGENT_ADR=127.0.0.1:1"}})
	cmd.SetArgs([]string{"--addr", "127.0.0.1:1"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	_ = cmd.ExecuteContext(t.Context())
	if want := "warning: variable REGENT_ADR: is not known, did you mean REGENT_ADDR?\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}
