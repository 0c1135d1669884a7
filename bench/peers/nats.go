package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/bench/internal/compare"
	"github.com/regentd/regent/bench/internal/port"
)

// startNATS starts a server with JetStream in this process.
func startNATS(_ context.Context, dir string) (compare.Server, error) {
	free := port.Free()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: free, JetStream: true, StoreDir: dir,
		NoLog: true, NoSigs: true})
	if err != nil {
		return compare.Server{}, err
	}

	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		s.Shutdown()
		return compare.Server{}, errors.New("NATS does not become ready")
	}

	stop := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	return compare.Server{Addr: s.ClientURL(), Stop: stop, Requests: func(context.Context) (float64, error) {
		v, err := s.Varz(nil)
		if err != nil {
			return 0, err
		}
		return float64(v.InMsgs), nil
	}}, nil
}

// natsKey is the recipe for a lock in a key-value bucket: create the key, update it in time, delete it. A waiter
// watches the key.
type natsKey struct {
	conn *nats.Conn
	kv   jetstream.KeyValue
}

func openNATS(ctx context.Context, addr string) (compare.Contender, error) {
	conn, err := nats.Connect(addr)
	if err != nil {
		return nil, err
	}

	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}

	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bench", TTL: lease})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsKey{conn, kv}, nil
}

// key returns the name of a key, which must not have some characters that names of elections have.
func key(election string) string {
	b := []byte(election)
	for i, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			b[i] = '-'
		}
	}
	return string(b)
}

func (n *natsKey) Hold(ctx context.Context, election string, led func()) error {
	rev, err := n.acquire(ctx, key(election))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	led()
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			if rev, err = n.kv.Update(ctx, key(election), []byte("bench"), rev); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return n.kv.Delete(context.WithoutCancel(ctx), key(election), jetstream.LastRevision(rev))
		}
	}
}

// acquire creates the key, and watches it while somebody else has it.
func (n *natsKey) acquire(ctx context.Context, key string) (rev uint64, err error) {
	watch, err := n.kv.Watch(ctx, key)
	if err != nil {
		return 0, err
	}
	defer func() { _ = watch.Stop() }()

	for {
		rev, err := n.kv.Create(ctx, key, []byte("bench"))
		if err == nil || !errors.Is(err, jetstream.ErrKeyExists) {
			return rev, err
		}

		poll := time.NewTimer(lease / 6)
		for free := false; !free; {
			select {
			case e := <-watch.Updates():
				free = e != nil && e.Operation() != jetstream.KeyValuePut
			case <-poll.C:
				free = true
			case <-ctx.Done():
				poll.Stop()
				return 0, ctx.Err()
			}
		}
		poll.Stop()
	}
}

func (n *natsKey) Once(ctx context.Context, election string) error {
	rev, err := n.kv.Create(ctx, key(election), []byte("bench"))
	if err != nil {
		return err
	}
	return n.kv.Delete(ctx, key(election), jetstream.LastRevision(rev))
}

func (n *natsKey) Close() { n.conn.Close() }
