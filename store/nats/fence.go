package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent"
)

const (
	// HeaderFence is the header of a fenced message that names its term, as election=NAME&epoch=NUMBER&term=NAME.
	HeaderFence = "Regent-Fence"
	// fenceTries is how often a message is published that others of the same term come before.
	fenceTries = 10
)

// Fence publishes a message to a subject of yours, in any stream, unless a newer term has published to that subject: an
// older epoch, and another term with the same epoch, is refused with a [regent.StaleError]. Nothing was stored then.
//
//	m := &client.Msg{Subject: "orders.7", Data: []byte("billed")} // of nats.go
//	_, err := nats.Fence(ctx, js, "ORDERS", term, m)
//
// The term is kept in the header [HeaderFence] of the last message of the subject. Fence reads it, and publishes on the
// condition that this message is still the last one. A read that is stale does no harm: the condition then fails, and
// Fence reads again. It works for the keys of a bucket too: stream KV_orders, subject $KV.orders.7.
//
// Each subject has a fence of its own: a deposed leader can publish to a subject that no newer term has used yet. So a
// new leader publishes to every subject that it is responsible for before it relies on them. Nobody may publish to such
// a subject without Fence, and the stream must keep the last message of each: no max_age, no work queue, no purge.
//
// An error that is none of those named here says nothing about whether the message was stored: call Fence again, with a
// Nats-Msg-Id of your own in the message if it must not be stored twice.
func Fence(
	ctx context.Context, js jetstream.JetStream, stream string, term regent.Term, m *nats.Msg,
) (sequence uint64, err error) {
	sequence, err = fence(ctx, js, stream, term, m)
	if err != nil {
		return 0, fmt.Errorf("fence subject %q of stream %s at epoch %d: %w", m.Subject, stream, term.Epoch, err)
	}
	return sequence, nil
}

func fence(
	ctx context.Context, js jetstream.JetStream, stream string, term regent.Term, m *nats.Msg,
) (sequence uint64, err error) {
	token := term.Token()
	switch err := token.Validate(); {
	case err != nil:
		return 0, err
	case token.Term == "":
		return 0, fmt.Errorf("%w: it names no term", regent.ErrInvalidToken)
	}

	for range fenceTries {
		last, err := admitted(ctx, js, stream, term, m.Subject)
		if err != nil {
			return 0, err
		}

		a, err := publishFenced(ctx, js.Conn(), stream, term, m, last)
		switch {
		case err != nil:
			return 0, err
		case a.Error == nil:
			return a.Sequence, nil
		}
		switch a.Error.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		default:
			return 0, a.Error
		}
		if err := pause(ctx, 0); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("others have published to it %d times meanwhile", fenceTries)
}

// publishFenced publishes a message once, on the condition that the last one of its subject is still the same.
func publishFenced(
	ctx context.Context, conn *nats.Conn, stream string, term regent.Term, m *nats.Msg, last uint64,
) (a ack, err error) {
	sent := nats.NewMsg(m.Subject)
	sent.Data = m.Data
	for key, values := range m.Header {
		sent.Header[key] = values
	}
	sent.Header.Set(nats.ExpectedStreamHdr, stream)
	sent.Header.Set(headerExpected, strconv.FormatUint(last, 10))
	sent.Header.Set(HeaderFence, url.Values{
		"election": {term.Election}, "epoch": {strconv.FormatUint(term.Epoch, 10)}, "term": {term.Incarnation},
	}.Encode())

	answer, err := conn.RequestMsgWithContext(ctx, sent)
	if err != nil {
		return ack{}, err
	}
	return a, json.Unmarshal(answer.Data, &a)
}

// admitted returns the sequence number of the subject's last message, on which a term may publish the next one, or a
// [regent.StaleError].
func admitted(
	ctx context.Context, js jetstream.JetStream, stream string, term regent.Term, subject string,
) (last uint64, err error) {
	handle, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	m, err := handle.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil // should that be wrong, the condition of the message fails
	}
	if err != nil {
		return 0, err
	}

	mark := m.Header.Get(HeaderFence)
	if mark == "" { // it was there before anybody fenced the subject
		return m.Sequence, nil
	}
	values, err := url.ParseQuery(mark)
	if err != nil {
		return 0, fmt.Errorf("message %d has the header %s: %.80q: %w", m.Sequence, HeaderFence, mark, err)
	}
	newest, err := strconv.ParseUint(values.Get("epoch"), 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("message %d has the header %s: %.80q: %w", m.Sequence, HeaderFence, mark, err)
	case values.Get("election") != term.Election:
		return 0, fmt.Errorf("it is fenced by the terms of election %q, which those of %q cannot be compared with",
			values.Get("election"), term.Election)
	case newest > term.Epoch || newest == term.Epoch && values.Get("term") != term.Incarnation:
		return 0, &regent.StaleError{
			Epoch: term.Epoch, Term: term.Incarnation, Newest: newest, NewestTerm: values.Get("term")}
	}
	return m.Sequence, nil
}
