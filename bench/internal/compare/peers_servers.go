package compare

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Server is a running server.
type Server struct {
	Addr string // as Peer.Open and Peer.Store take it
	Stop func()

	// Requests returns how many requests clients have sent so far; nil if that is not known.
	Requests func(context.Context) (float64, error)
}

// peerServers starts the servers of the sides.
type peerServers struct {
	lab     *lab
	servers map[string]Server // those that sides share
}

// shared returns the server that all peers with the same Server share. It is started once.
func (s *peerServers) shared(ctx context.Context, p Peer) (Server, error) {
	if server, ok := s.servers[p.Server]; ok {
		return server, nil
	}

	server, err := s.own(ctx, p)
	if err == nil {
		s.servers[p.Server] = server
	}
	return server, err
}

// own starts a server for one peer alone.
func (s *peerServers) own(ctx context.Context, p Peer) (Server, error) {
	switch p.Server {
	case "redis":
		r, err := s.lab.redis()
		if err != nil {
			return Server{}, err
		}
		count := r.counter(p.inScripts)
		return Server{Addr: r.addr, Requests: func(ctx context.Context) (float64, error) {
			n, err := count(ctx)
			return float64(n), err
		}}, nil
	case postgresServer:
		addr, err := s.lab.postgres(ctx)
		if err != nil {
			return Server{}, err
		}
		return Server{Addr: addr, Requests: transactions(addr)}, nil
	}

	dir, err := s.lab.subdir(p.Server)
	if err != nil {
		return Server{}, err
	}

	server, err := p.Start(ctx, dir)
	if err == nil {
		s.lab.onClose(server.Stop)
	}
	return server, err
}

// transactions returns a function that asks a PostgreSQL server how many transactions have ended. A statement without a
// transaction around it is one. The count is up to ten seconds old.
func transactions(addr string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (n float64, err error) {
		conn, err := pgx.Connect(ctx, addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close(ctx)

		err = conn.QueryRow(ctx, "SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database "+
			"WHERE datname = current_database()").Scan(&n)
		return n, err
	}
}
