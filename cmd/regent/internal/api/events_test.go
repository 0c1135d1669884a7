package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/memstore"
)

func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	var log logBuffer
	a := serve(t, memstore.New(), "a", "", func(o *api.Options) { o.Log = log.logger() })
	a.until("/leader", 200)

	conn, err := net.Dial("tcp", a.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	_ = conn.(*net.TCPConn).SetReadBuffer(1 << 10)
	fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the stream begins", func() bool { return a.metric("regent_event_streams") == "1" })

	// More than the buffers of both sides hold, at once: it is not read.
	large := strings.Repeat("x", 64<<10)
	for i := range uint64(400) {
		a.Hub.Send(regent.Event{Seq: 1_000_000 + i, Kind: "test:large", Metadata: map[string]string{"x": large}})
	}

	eventually(t, "it is counted", func() bool { return a.metric("regent_event_subscribers_cut_off_total") == "1" })
	eventually(t, "it is logged", func() bool {
		return strings.Contains(log.String(),
			"event subscriber was too slow and is cut off")
	})
}

func TestLastEventID(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	read := func(lines int, id string) string {
		resp := a.stream(t.Context(), "Last-Event-ID", id)
		defer resp.Body.Close()

		if resp.StatusCode != 200 {
			b, _ := io.ReadAll(resp.Body)
			return string(b)
		}

		var text strings.Builder
		for in := bufio.NewScanner(resp.Body); lines > 0 && in.Scan(); lines-- {
			text.WriteString(in.Text() + "\n")
		}

		return text.String()
	}
	begin := read(6, "")
	t.Run("the_end_of_the_kept_events_is_marked", func(t *testing.T) {
		resp := a.stream(t.Context(), "Last-Event-ID", "")
		defer resp.Body.Close()
		kept := 0
		for in := bufio.NewScanner(resp.Body); in.Scan() && in.Text() != ": "+api.EndOfKept; {
			if strings.HasPrefix(in.Text(), "id: ") {
				kept++
			}
		}
		if kept < 2 {
			t.Errorf("the mark comes after %d events", kept)
		}
	})

	var id string
	for line := range strings.Lines(begin) {
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(rest)
			break
		}
	}

	if run, seq, _ := strings.Cut(id, "-"); len(run) != 13 || seq != "1" {
		t.Fatalf("the first ID is %q in %s", id, begin)
	}

	t.Run("of_this_run_goes_on_after_it", func(t *testing.T) {
		if got := read(3, id); strings.Contains(got, "stream:gap") ||
			!strings.Contains(got, strings.TrimSuffix(id, "1")+"2\n") {
			t.Errorf("got %s", got)
		}
	})

	t.Run("of_an_earlier_run_skips_nothing_and_shows_the_gap", func(t *testing.T) {
		for _, other := range []string{"AAAAAAAAAAAAA-3", "3"} {
			if got := read(6, other); !strings.Contains(got, "event: stream:gap\n") ||
				!strings.Contains(got, "id: "+id+"\n") {
				t.Errorf("%s: got %s", other, got)
			}
		}
	})

	t.Run("that_is_none_is_refused", func(t *testing.T) {
		if got := read(3, "x"); !strings.Contains(got, `Last-Event-ID \"x\": must be the ID of an event`) {
			t.Errorf("got %s", got)
		}
	})
}
