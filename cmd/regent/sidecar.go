package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// listenSidecar listens where the leader's name is asked for. Without an address it returns nil.
func listenSidecar(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListen(address, err)
	}
	return l, nil
}

// serveSidecar answers every GET / with {"name": "node-a"}, the leader as this node knows it, until ctx ends. The name
// is empty if nobody leads. That was the contract of the leader-elector sidecar.
func serveSidecar(ctx context.Context, l net.Listener, n *node.Node, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"name": n.Health().Leader}) // the client is gone
	})

	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	log.Info("sidecar listens", "sidecar", l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("sidecar has failed", "error", err)
	}
}
