package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// duplicates is how long the server remembers the IDs of messages. A write is sent again within milliseconds or never.
const duplicates = 2 * time.Minute

// prepare checks the stream, or creates it, and checks that this user may use it.
func (s *Store) prepare(ctx context.Context) error {
	stream, err := s.ensure(ctx)
	if err != nil {
		return s.explain(ctx, err)
	}
	s.stream = stream
	cfg := stream.CachedInfo().Config
	if err := s.validate(cfg); err != nil {
		return fmt.Errorf("%s: %w", s, driver.Refused(err))
	}
	for _, w := range s.weaknesses(cfg) {
		s.warn(s.String() + ": " + w)
	}

	s.followStream()
	return s.probe(ctx)
}

// ensure returns the stream, and creates it if there is none.
func (s *Store) ensure(ctx context.Context) (jetstream.Stream, error) {
	find := func(ctx context.Context) (jetstream.Stream, error) { return s.js.Stream(ctx, s.addr.stream) }
	create := func(ctx context.Context) (jetstream.Stream, error) {
		cfg := s.config()
		stream, err := s.js.CreateStream(ctx, cfg)
		if codeOf(err) == codeReplicasOfOne && s.addr.replicas == 0 { // a leaf node of a single server says cluster too
			cfg.Replicas = 1
			return s.js.CreateStream(ctx, cfg)
		}
		return stream, err
	}

	began := time.Now()
	for times := 0; ; times++ {
		stream, err := s.manageStream(ctx, "STREAM.INFO.", find)
		switch {
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return stream, err
		case s.noProbe:
			return nil, driver.Refused(fmt.Errorf("stream %s: %w", s.addr.stream, ErrNoStream))
		}

		// Another process may create it meanwhile. A server says so before it can show the stream.
		stream, err = s.manageStream(ctx, "STREAM.CREATE.", create)
		if codeOf(err) != jetstream.JSErrCodeStreamNameInUse {
			return stream, err
		}
		if time.Since(began) >= settleTime || pause(ctx, times) != nil {
			return nil, err
		}
	}
}

// manageStream makes a request about the stream.
func (s *Store) manageStream(
	ctx context.Context, kind string, f func(context.Context) (jetstream.Stream, error),
) (stream jetstream.Stream, err error) {
	err = s.api(ctx, kind, func(ctx context.Context) (err error) {
		stream, err = f(ctx)
		return err
	})
	return stream, err
}

// api makes a request of the client's own, again if it is not answered.
func (s *Store) api(ctx context.Context, kind string, f func(context.Context) error) error {
	within, done, err := s.begin(ctx, s.addr.api(kind+s.addr.stream))
	if err != nil {
		return err
	}
	defer done()

	err = repeat(within, func(ctx context.Context) error {
		s.sent.Add("check")
		return f(ctx)
	})
	if cause := context.Cause(within); err != nil && cause != nil {
		return cause
	}
	return err
}

// config returns the stream that Open creates. Its sequence numbers begin with the time, in microseconds: a stream that
// was deleted and created again uses no number that the one before has used.
func (s *Store) config() jetstream.StreamConfig {
	replicas := s.addr.replicas
	switch {
	case replicas > 0:
	case s.conn.ConnectedClusterName() != "", s.addr.keys["domain"]+s.addr.keys["apiPrefix"] != "":
		replicas = 3 // other servers than this one may hold the stream
	default:
		replicas = 1
	}

	a := s.addr
	return jetstream.StreamConfig{
		Name: a.stream, Description: "registers of Regent", Subjects: []string{a.registers() + ">", a.barrier()},
		Replicas: replicas, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1,
		Duplicates: duplicates, AllowDirect: true, FirstSeq: uint64(time.Now().UnixMicro()),
		RePublish: &jetstream.RePublish{Source: a.registers() + ">", Destination: a.changes() + ">"},
	}
}

// validate returns why a stream cannot hold registers.
func (s *Store) validate(c jetstream.StreamConfig) error {
	for _, rule := range []struct {
		wrong            bool
		key, value, rule string
	}{
		{c.MaxMsgsPerSubject != 1, "max_msgs_per_subject", strconv.FormatInt(c.MaxMsgsPerSubject, 10),
			"must be 1: the last message of a subject is the record"},
		{c.Retention != jetstream.LimitsPolicy, "retention", c.Retention.String(),
			"must be limits: others delete records once they are read"},
		{c.MaxAge > 0, "max_age", c.MaxAge.String(), "must be 0: records would expire, and epochs begin again"},
		{c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0), "discard", "old",
			"must be new in a stream with max_msgs or max_bytes: a full stream would delete records"},
		{c.NoAck, "no_ack", "true", "must be false: no outcome of a write would be known"},
		{c.Sealed, "sealed", "true", "must be false"},
		{c.Mirror != nil || len(c.Sources) > 0, "mirror, sources", "set", "must be empty"},
		{c.SubjectTransform != nil, "subject_transform", "set", "must be empty"},
		{!c.AllowDirect, "allow_direct", "false", "must be true: that is how records are read"},
		{!covers(c.Subjects, s.addr.registers()+">") || !covers(c.Subjects, s.addr.barrier()), "subjects",
			strconv.Quote(strings.Join(c.Subjects, ",")),
			"must be " + s.addr.registers() + "> and " + s.addr.barrier()},
	} {
		if rule.wrong {
			return fmt.Errorf("stream %s: %w", s.addr.stream,
				&regent.ConfigError{Key: rule.key, Value: rule.value, Rule: rule.rule})
		}
	}
	return nil
}

// covers reports whether a stream with these subjects stores all that match one of its own.
func covers(subjects []string, own string) bool {
	return slices.ContainsFunc(subjects, func(subject string) bool {
		prefix, all := strings.CutSuffix(subject, ">")
		return subject == own || all && strings.HasPrefix(own, prefix)
	})
}

// weaknesses returns what makes a stream less safe than it could be, or slower.
func (s *Store) weaknesses(c jetstream.StreamConfig) (all []string) {
	if c.Replicas < 3 {
		all = append(all, fmt.Sprintf("stream %s has %d replica: while its server is away there is no leader, and "+
			"with its disk all epochs are lost; use three servers and replicas=3", c.Name, c.Replicas))
	}
	if c.Storage == jetstream.MemoryStorage {
		all = append(all, "stream "+c.Name+" is in memory: servers that restart together forget all epochs; use "+
			"storage file")
	}
	if c.PersistMode == jetstream.AsyncPersistMode {
		all = append(all, "stream "+c.Name+" answers before it writes (persist_mode async): a server that crashes "+
			"forgets answered writes; use the default mode")
	}
	if c.DenyDelete {
		all = append(all, "stream "+c.Name+" has deny_delete: the subjects of removed registers stay for ever")
	}
	if c.RePublish == nil || c.RePublish.HeadersOnly || c.RePublish.Source != s.addr.registers()+">" ||
		c.RePublish.Destination != s.addr.changes()+">" {
		all = append(all, fmt.Sprintf("stream %s does not republish %s> to %s>: changes are found by polling alone",
			c.Name, s.addr.registers(), s.addr.changes()))
	}
	return all
}

// followStream doubts all revisions when the stream was deleted, restored, or has another leader. The messages that say
// so are not needed: a user who may not subscribe to them loses nothing but time.
func (s *Store) followStream() {
	s.sent.Add("subscribe")
	_, err := s.conn.Subscribe("$JS.EVENT.ADVISORY.STREAM.*."+s.addr.stream, func(*nats.Msg) {
		s.known.forget()
		s.notifier.wakeAll()
	})
	if err != nil {
		s.warn(fmt.Sprintf("%s: subscribe to what happens to the stream: %v", s, err))
	}
}

// settleTime is how long a stream may take until all servers know of it.
const settleTime = 5 * time.Second

// probe checks that this user may read and write. The write has a condition that never holds.
func (s *Store) probe(ctx context.Context) error {
	began := time.Now()
	for times := 0; ; times++ {
		_, err := s.read(ctx, "check", nil)
		if err == nil {
			break
		}
		young := errors.Is(err, nats.ErrNoResponders) && time.Since(began) < settleTime
		if !young || pause(ctx, times) != nil {
			return s.explain(ctx, err)
		}
	}
	if s.noProbe {
		return nil
	}

	m := nats.NewMsg(s.addr.registers() + "regent.probe")
	m.Header.Set(headerExpected, strconv.FormatUint(1<<62, 10))
	a, err := s.publish(ctx, "check", m)
	switch {
	case err != nil:
		return s.explain(ctx, err)
	case a.Error == nil:
		return fmt.Errorf("%s: stream %s: a write with a condition that does not hold was applied", s, s.addr.stream)
	case a.Error.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence:
		return s.explain(ctx, a.Error)
	}
	return nil
}

// repairs says when the stream was last asked for.
type repairs struct {
	mu   sync.Mutex
	last time.Time
}

// repair creates the stream again if it was deleted, at most once a second. It does not wait.
func (s *Store) repair() {
	s.repairs.mu.Lock()
	defer s.repairs.mu.Unlock()
	if s.noProbe || time.Since(s.repairs.last) < time.Second {
		return
	}

	s.repairs.last = time.Now()
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
		defer cancel()
		_, _ = s.ensure(ctx) // the next request meets the same error
	})
}
