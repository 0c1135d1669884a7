package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/regentd/regent"
)

// heartbeat is how often a stream says that it lives, so that proxies keep it open.
const heartbeat = 15 * time.Second

// events streams what happens. A client that comes back with Last-Event-ID gets what it has missed, as far as it is kept.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	var after uint64
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if after, err = strconv.ParseUint(id, 10, 64); err != nil {
			answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("Last-Event-ID %q: it must be the number of an event", id)})
			return
		}
	}
	past, coming, stop := s.Node.Hub.Listen(after)
	defer stop()
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(text string) bool {
		_ = c.SetWriteDeadline(time.Now().Add(heartbeat))
		_, err := fmt.Fprint(w, text)
		return err == nil && c.Flush() == nil
	}
	if !send(": what happens on this node\n\n") {
		return
	}
	for _, e := range past {
		if !send(frame(e)) {
			return
		}
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-coming:
			if !ok || !send(frame(e)) { // too slow: it comes back with the number of the last one
				return
			}
		case <-tick.C:
			if !send(": still here\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

func frame(e regent.Event) string {
	b, err := json.Marshal(e)
	if err != nil { // an event holds nothing that JSON cannot hold
		return ""
	}
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Kind, b)
}
