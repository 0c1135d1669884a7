package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

const (
	// swapTries is how often a write is sent if the server answers that another one of the same register is under way.
	swapTries = 20
	// concurrent is how many writes of a batch are under way at a time.
	concurrent = 64
)

// errUnclear says that a server has refused a write, and that another one may have accepted it.
var errUnclear = errors.New("the server has refused the write and shows an older record: another server may lead the " +
	"stream, and may have applied it")

// Swap implements [driver.Store] with one message.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	m := nats.NewMsg(s.addr.registers() + encodeName(l.Name))
	m.Data = l.AppendJSON(make([]byte, 0, 512+len(l.Data)*4/3))
	rev, err := s.write(ctx, "swap", m, l)
	if err != nil {
		return driver.Record{}, s.failedWrite(ctx, "swap", l, err)
	}
	l.Rev = rev
	return l, nil
}

func (s *Store) failedWrite(ctx context.Context, what string, l driver.Record, err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return fmt.Errorf("%s %q at revision %q: %w", what, l.Name, l.Rev, err)
	}
	return fmt.Errorf("%s %q: %w", what, l.Name, s.explain(ctx, err))
}

// write publishes a message if the register still has the revision of l, and returns the new one. It has the three
// outcomes of [driver.Store.Swap].
func (s *Store) write(ctx context.Context, kind string, m *nats.Msg, l driver.Record) (rev string, err error) {
	stamp := s.newStamp()
	m.Header.Set(nats.MsgIdHdr, stamp)
	if err := s.check(ctx, l); err != nil {
		return "", err
	}

	expected := sequenceOf(l.Rev)
	for times := range swapTries {
		m.Header.Set(headerExpected, strconv.FormatUint(expected, 10))
		a, err := s.publish(ctx, kind, m)
		if err == nil {
			expected, err = s.judgeAck(ctx, l, a, expected)
		}
		if errors.Is(err, driver.ErrConflict) && times > 0 {
			a.Sequence, err = s.own(ctx, l.Name, stamp)
		}
		switch {
		case err == nil:
			rev = revision(a.Sequence, stamp)
			s.known.add(l.Name, rev)
			return rev, nil
		case !errors.Is(err, errAgain):
			return "", err
		}
		if err := pause(ctx, times); err != nil {
			return "", err
		}
	}
	return "", errUnclear
}

// errAgain says that a message is to be sent once more.
var errAgain = errors.New("send it again")

// judgeAck returns nil if a message was stored, ErrConflict if it never will be, and errAgain if it is to be sent once
// more.
//
// A message with the same ID is stored once, so it may be sent again. It is sent again if the answer proves nothing.
// While a former leader of the stream does not know yet that it was deposed, a message reaches both leaders, and the
// answer of either may come first:
//
//   - A refusal that names a later message than the expected one proves a conflict. That message was accepted by a
//     majority, and ours cannot be applied after it. If ours was applied before, the server knows its ID and says so.
//   - A refusal that names an earlier one, or none at all, may come from a former leader.
func (s *Store) judgeAck(ctx context.Context, l driver.Record, a ack, expected uint64) (next uint64, err error) {
	if a.Error == nil { // it was stored now, or before: with this ID
		return expected, nil
	}
	switch a.Error.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant, codeDuplicateUnderWay:
		return expected, errAgain // another write of this register is under way
	case jetstream.JSErrCodeStreamWrongLastSequence:
	default:
		return expected, a.Error
	}

	last, ok := lastSequence(a.Error)
	if ok && last > expected && l.Rev != "" {
		return expected, driver.ErrConflict
	}

	found, err := s.read(ctx, "get", []string{l.Name})
	if err != nil {
		return expected, err
	}
	now := found[l.Name]
	switch {
	case l.Rev == "" && now.sequence > 0 && now.removed:
		return now.sequence, errAgain // the message that marks its removal is still there
	case l.Rev == "" && now.sequence > 0 && now.sequence >= last && last > 0:
		return expected, driver.ErrConflict
	case l.Rev != "" && (now.sequence == 0 || now.removed):
		return expected, driver.ErrConflict
	case l.Rev == "" && now.sequence == 0, now.revision() == l.Rev:
		return expected, errAgain // a former leader has answered
	}
	return expected, errUnclear
}

// own returns the sequence number of the register's message if it has this stamp, and ErrConflict otherwise. A server
// that is no cluster compares sequence numbers before it compares IDs: a message that was sent twice might conflict
// with itself.
func (s *Store) own(ctx context.Context, name, stamp string) (sequence uint64, err error) {
	found, err := s.read(ctx, "get", []string{name})
	if err != nil {
		return 0, err
	}
	if now := found[name]; now.sequence > 0 && now.stamp == stamp {
		return now.sequence, nil
	}
	return 0, driver.ErrConflict
}

// check compares the whole revision with that of the register, unless it is known that they are the same.
func (s *Store) check(ctx context.Context, l driver.Record) error {
	if l.Rev == "" || s.known.has(l.Name, l.Rev) {
		return nil
	}

	found, err := s.read(ctx, "get", []string{l.Name})
	if err != nil {
		return err
	}
	now, ok := found[l.Name]
	if !ok || now.removed || now.revision() != l.Rev {
		return driver.ErrConflict
	}
	s.known.add(l.Name, l.Rev)
	return nil
}

// SwapAll implements [driver.Batcher]. JetStream has no message that swaps many registers, each with its own outcome,
// so the messages are sent without waiting for the answers of those before.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	all := make([]driver.Outcome, len(ls))
	var running sync.WaitGroup
	room := make(chan struct{}, concurrent)
	for i, l := range ls {
		room <- struct{}{}
		running.Go(func() {
			all[i].Record, all[i].Err = s.Swap(ctx, l)
			<-room
		})
	}
	running.Wait()
	return all
}

// Remove implements [driver.Remover]. The register gets a last message that marks its removal, on the condition that
// its revision is still the same; from then on it counts as never written. Then the server deletes that message, which
// no condition can hold for: a message with this number is either the mark, or gone.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	conflict := fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	now, err := s.Get(ctx, l.Name)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return conflict
	case err != nil:
		return fmt.Errorf("remove %q: %w", l.Name, err)
	case now.Rev != l.Rev || !now.Vacant():
		return conflict
	}

	m := nats.NewMsg(s.addr.registers() + encodeName(l.Name))
	m.Header.Set(headerRemoved, "true")
	rev, err := s.write(ctx, "remove", m, l)
	if err != nil {
		return s.failedWrite(ctx, "remove", l, err)
	}

	s.known.remove(l.Name)
	s.deleteMessage(ctx, sequenceOf(rev))
	return nil
}

// deleteMessage deletes a message of the stream. If that fails, a message stays that says that its register was
// removed, until the register is written again.
func (s *Store) deleteMessage(ctx context.Context, sequence uint64) {
	body, err := json.Marshal(map[string]any{"seq": sequence, "no_erase": true})
	if err != nil {
		return
	}
	m := nats.NewMsg(s.addr.api("STREAM.MSG.DELETE." + s.addr.stream))
	m.Data = body
	_ = repeat(ctx, func(ctx context.Context) error {
		_, err := s.request(ctx, "remove", m)
		return err
	})
}
