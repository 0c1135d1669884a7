package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
)

// streamInterval is how often a stream sends a comment, so that proxies keep it open.
const streamInterval = 15 * time.Second

// EndOfKept is the comment that a stream has after the events that the node kept, and before those that are new. A
// client that wants no new ones ends there.
const EndOfKept = "end of the kept events"

// EventGap is the kind of the event that a stream begins with if its client has missed events that are not kept any
// more.
const EventGap regent.EventKind = "stream:gap"

// readers admits requests for a stream, up to the limit. They need a proof where writes need one.
func (s *server) readers(next http.HandlerFunc) http.Handler {
	limited := s.Limits.stream(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Token.Token() != "" || asksForCertificates(r) || s.Guarded {
			s.authorized(limited).ServeHTTP(w, r)
			return
		}
		limited.ServeHTTP(w, r)
	})
}

// events streams the events of this node. A client that comes back with Last-Event-ID gets the events that it has
// missed, as far as they are kept.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	subscription, err := s.Node.Hub.Subscribe(r.Header.Get("Last-Event-ID"))
	if err != nil {
		fail(w, http.StatusBadRequest, CodeInvalidRequest, "Last-Event-ID "+err.Error())
		return
	}

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")

	if r.Method == http.MethodHead { // a stream has no end to wait for
		subscription.Close()
		return
	}

	err = s.stream(r, &frames{
		w: w, c: http.NewResponseController(w), hub: s.Node.Hub, prefix: s.EventPrefix,
	}, subscription)
	if errors.Is(err, os.ErrDeadlineExceeded) { // the client does not read at all
		subscription.CutOff()
	}

	if subscription.Close() {
		s.Log.Warn("event subscriber was too slow and is cut off; with Last-Event-ID it gets what it missed",
			"remote", r.RemoteAddr, "cutOff", s.Node.Hub.CutOff())
	}
}

// stream writes events until the client has left or is cut off, or the node stops.
func (s *server) stream(r *http.Request, out *frames, from *node.Subscription) error {
	if err := out.comment("events of this node"); err != nil {
		return err
	}

	if from.Missed != "" {
		gap := regent.Event{
			Time: time.Now(), Kind: EventGap, Node: s.Node.Member.ID,
			Metadata: map[string]string{"reason": from.Missed},
		}
		if err := out.event(gap, ""); err != nil {
			return err
		}
	}

	for _, e := range from.Past {
		if err := out.event(e, out.hub.ID(e)); err != nil {
			return err
		}
	}

	if err := out.comment(EndOfKept); err != nil {
		return err
	}

	tick := time.NewTicker(streamInterval)
	defer tick.Stop()

	for {
		var err error
		select {
		case e, ok := <-from.Events():
			if !ok { // the client was too slow
				return nil
			}
			err = out.event(e, out.hub.ID(e))
		case <-tick.C:
			err = out.comment("keep-alive")
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// frames writes the frames of a stream. Each write has a deadline of its own.
type frames struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	hub *node.Hub

	prefix string // of the names of events; empty for none
}

func (f *frames) comment(text string) error { return f.send(": " + text + "\n\n") }

// namedEvent is an event with the name that it has outside: its kind after the prefix.
type namedEvent struct {
	regent.Event
	Name string `json:"name,omitempty"` // left out without a prefix
}

// event writes an event. Without an ID, the client keeps the ID of the event before.
func (f *frames) event(e regent.Event, id string) error {
	named := namedEvent{Event: e}
	if f.prefix != "" {
		named.Name = f.prefix + ":" + string(e.Kind)
	}

	b, err := json.Marshal(named)
	if err != nil { // cannot be: every field of an event has a JSON form
		return nil
	}

	if id != "" {
		id = "id: " + id + "\n"
	}

	return f.send(fmt.Sprintf("%sevent: %s\ndata: %s\n\n", id, cmp.Or(named.Name, string(e.Kind)), b))
}

func (f *frames) send(text string) error {
	_ = f.c.SetWriteDeadline(time.Now().Add(streamInterval))
	if _, err := fmt.Fprint(f.w, text); err != nil {
		return err
	}
	return f.c.Flush()
}
