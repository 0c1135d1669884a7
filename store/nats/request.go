package nats

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

const (
	// answerTimeout is how long a request that changes nothing waits for its answer before it is sent again. The server
	// that should have answered may have died.
	answerTimeout = time.Second
	// headerSequence is the sequence number of a stored message.
	headerSequence = "Nats-Sequence"
	// headerExpected is the sequence number that the last message of a subject must have.
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
)

// begin returns the context of a request, or an error if there is no use in sending it.
func (s *Store) begin(ctx context.Context, subject string) (context.Context, func(), error) {
	switch {
	case s.closed.Load():
		return nil, nil, driver.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	within, done := s.link.begin(ctx, s.ctx, subject)
	return within, done, nil
}

// request sends a message once, and returns the answer.
func (s *Store) request(ctx context.Context, kind string, m *nats.Msg) (*nats.Msg, error) {
	within, done, err := s.begin(ctx, m.Subject)
	if err != nil {
		return nil, err
	}
	defer done()

	began := time.Now()
	s.sent.Add(kind)
	answer, err := s.conn.RequestMsgWithContext(within, m)
	return answer, s.judge(within, began, err)
}

// judge returns why a request has failed, and starts what may help the next one.
func (s *Store) judge(within context.Context, began time.Time, err error) error {
	if err == nil {
		return nil
	}
	s.known.forget()
	if cause := context.Cause(within); cause != nil {
		if time.Since(began) >= unanswered {
			s.suspect()
		}
		return cause
	}
	if errors.Is(err, nats.ErrNoResponders) {
		s.repair()
	}
	return err
}

// repeat calls f until it is answered in time. f changes nothing, so it may be sent again.
func repeat(ctx context.Context, f func(context.Context) error) error {
	for {
		short, cancel := context.WithTimeout(ctx, answerTimeout)
		err := f(short)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// pause waits longer from time to time, or until ctx ends.
func pause(ctx context.Context, times int) error {
	select {
	case <-ctx.Done():
	case <-time.After(min(time.Millisecond<<min(times, 10), 50*time.Millisecond)):
	}
	return ctx.Err()
}

// ack is the answer to a message that was published to the stream.
type ack struct {
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// publish publishes a message to the stream once. An answer that is an error of the stream is in the ack.
func (s *Store) publish(ctx context.Context, kind string, m *nats.Msg) (ack, error) {
	before := s.known.before()
	m.Header.Set(nats.ExpectedStreamHdr, s.addr.stream)
	answer, err := s.request(ctx, kind, m)
	if err != nil {
		return ack{}, err
	}

	var a ack
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return ack{}, err
	}
	if a.Error == nil && !a.Duplicate && s.known.after(before, a.Sequence) {
		s.notifier.wakeAll()
	}
	return a, nil
}

// barrier publishes a message that says nothing, and returns its sequence number. A majority of the replicas has then
// accepted it, so it comes after every write that was answered before. A read that shows it is not stale.
//
// JetStream itself has no such read. The leader of a stream answers from what it has, without asking whether it still
// is the leader. One that was frozen or cut off may show, for some seconds, records that others have replaced.
func (s *Store) barrier(ctx context.Context) (sequence uint64, err error) {
	err = repeat(ctx, func(ctx context.Context) error {
		a, err := s.publish(ctx, "barrier", nats.NewMsg(s.addr.barrier()))
		switch {
		case err != nil:
			return err
		case a.Error != nil:
			return a.Error
		}
		sequence = a.Sequence
		return nil
	})
	return sequence, err
}

// lastSequence returns the sequence number that the server has found instead of the expected one.
func lastSequence(err *jetstream.APIError) (uint64, bool) {
	_, text, ok := strings.Cut(err.Description, "wrong last sequence: ")
	if !ok {
		return 0, false
	}
	n, wrong := strconv.ParseUint(text, 10, 64)
	return n, wrong == nil
}
