package compare

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// hangingPeer never comes back from its second pair.
type hangingPeer struct{ pairs int }

func (h *hangingPeer) Hold(ctx context.Context, _ string, led func()) error {
	led()
	<-ctx.Done()
	return nil
}

func (h *hangingPeer) Once(ctx context.Context, _ string) error {
	if h.pairs++; h.pairs > 1 {
		<-ctx.Done()
	}
	return nil
}

func (h *hangingPeer) Close() {}

// TestPeers runs the command bench/peers on Redis alone, with a peer of the caller's that hangs.
func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}

	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	more := []Peer{{Name: "hangs", Server: "none",
		Start: func(context.Context, string) (Server, error) { return Server{Addr: "here", Stop: func() {}}, nil },
		Open: func(_ context.Context, addr string) (Contender, error) {
			if addr != "here" {
				t.Errorf("address %q", addr)
			}
			return &hangingPeer{}, nil
		}}}

	var out bytes.Buffer
	err := runPeers(ctx, []string{"-quick", redsyncPeer, regentLock, "hangs"}, &out, &out, more)
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"make bench-peers", "| " + redsyncPeer + " |", "| " + regentLock + " |",
		"clients: 3", "hangs: a client did not return within " + hangLimit.String()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestPeersRefuses names the peer that does not exist.
func TestPeersRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := runPeers(ctx, []string{"nobody"}, &out, &out, nil)
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
}
