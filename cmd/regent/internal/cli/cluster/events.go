package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/api"
)

// maxEvent is the longest line of a stream, in bytes.
const maxEvent = 1 << 20

// Events implements [Cluster].
func (n *Node) Events(ctx context.Context, from string) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		header := http.Header{"Accept": {"text/event-stream"}}
		if from != "" {
			header.Set("Last-Event-ID", from)
		}

		resp, err := n.request(ctx, http.MethodGet, "/v1/events", nil, header)
		if err != nil {
			yield(StreamEvent{}, err)
			return
		}
		defer resp.Body.Close()

		if resp.StatusCode >= 400 {
			data, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
			yield(StreamEvent{}, n.failed("/v1/events", resp.StatusCode, data))
			return
		}

		n.frames(resp.Body, yield)
	}
}

// frames yields the events of a stream.
func (n *Node) frames(body io.Reader, yield func(StreamEvent, error) bool) {
	var e StreamEvent
	complete := false
	in := bufio.NewScanner(body)
	in.Buffer(nil, maxEvent)
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.Event); err != nil {
				yield(e, fmt.Errorf("%s sends an event that cannot be read: %w", n.Where(), err))
				return
			}
			complete = true
		case "":
			if value == api.EndOfKept && !yield(StreamEvent{EndOfKept: true}, nil) {
				return
			}
			if complete && in.Text() == "" {
				if !yield(e, nil) {
					return
				}
				e = StreamEvent{}
				complete = false
			}
		}
	}

	err := in.Err()
	if err == nil {
		err = io.EOF
	}
	yield(StreamEvent{}, &unreachableError{"the stream of " + n.Where() + " has ended", err})
}
