package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/signed"
)

// serve runs a node until ctx ends.
func serve(ctx context.Context, args []string, out, errs io.Writer) error {
	set := flag.NewFlagSet("regent serve", flag.ContinueOnError)
	check := set.Bool("check-config", false, "print the configuration, and where each value comes from, ask the store whether it can be used, and exit")
	format := set.String("o", "text", "with --check-config: text or json")
	source := config.Flags(set)
	switch err := config.Parse(set, args); {
	case errors.Is(err, flag.ErrHelp):
		return helpWithKeys(out, serveHelp)
	case err != nil:
		return fmt.Errorf("serve: %w", err)
	}
	hangups := make(chan os.Signal, 1) // from now on, so that a signal at any time reloads, and none ends the node
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	load := func() (*config.Settings, error) { return source.Load(os.Environ(), config.ReadFile) }
	settings, err := load()
	if err != nil {
		return err
	}
	if len(settings.Args) > 0 {
		return fmt.Errorf("serve takes flags only, got %q: %w", settings.Args[0], errUsage)
	}
	storeUnshared(settings)
	if err := settings.ChooseAdvertise(config.ThisMachine()); err != nil {
		return err
	}
	if *check {
		refused := probeStore(ctx, settings)
		return errors.Join(settings.Explain(out, *format), refused)
	}
	level := new(slog.LevelVar)
	level.Set(settings.LogLevel)
	return runNode(ctx, settings, &reloader{load: load, began: settings, level: level, log: logger(settings, level, errs), signal: hangups})
}

// cannotListen says what to do where another process listens already.
func cannotListen(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another process listens there: stop it, or choose another address with --listen "+
			"(port 0 takes any free one)", err)
	}
	return err
}

// withPort returns the address of a listener, with a host that others can reach in place of one that stands for all.
func withPort(address string, listener net.Listener) string {
	tcp, ok := listener.Addr().(*net.TCPAddr)
	host, _, err := net.SplitHostPort(address)
	if !ok || err != nil || !tcp.IP.IsUnspecified() {
		return listener.Addr().String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

func logger(s *config.Settings, level slog.Leveler, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// storeWarning logs what a store warns of.
func storeWarning(log *slog.Logger) func(string) {
	return func(w string) { log.Warn("store warning", "warning", w) }
}

// runNode starts what a node consists of, and stops it in the order of C06: duties, the seat, then everything else.
func runNode(ctx context.Context, s *config.Settings, reload *reloader) error {
	log := reload.log
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	if err := validateStore(s); err != nil {
		return err
	}
	notifier, err := node.NewNotifier()
	if err != nil {
		return err
	}
	others, err := newPeers(s, log)
	if err != nil {
		return err
	}
	token := signed.NewSecret(s.Token)
	reload.peers, reload.token = others, token
	companion := startReaper(context.WithoutCancel(ctx), s, log)
	defer companion.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return cannotListen(err)
	}
	advertise := s.Advertise
	if !s.Given("advertise") {
		advertise = withPort(advertise, listener) // which may have been left to the system
	}
	factsOf := func(token string) (map[string]string, error) {
		return node.Facts(s.Election, token, s.Profile, version(), s.Regent.LeaseDuration)
	}
	facts, err := factsOf(s.Token)
	if err != nil {
		return err
	}
	client, scheme := others.client()
	open := opener(s.Store, storeUse{children: len(s.Duties) > 0, jitter: s.Regent.StartupJitterMax}, storeWarning(log))
	n, err := node.New(node.Options{
		Facts: facts, Now: testClock(os.Getenv(testClockFile)),
		Config: s.Regent, Election: s.Election, ID: s.Node, Addr: advertise, Log: log, Store: location(s.Store),
		Open:     forElection(s.Election, storeWarning(log), open),
		Lifeline: companion.Lifeline, Duties: programs(s, companion, log),
		Crew: node.Crew{Token: token, Client: client, Scheme: scheme, Polls: s.Polls, Worker: s.Worker,
			DataDir: s.DataDir, Tasks: s.Tasks, TaskBytes: s.TaskBytes, ExecPolls: s.ExecPolls},
	})
	if err != nil {
		_ = listener.Close()
		return err
	}
	reload.publish = func(token string) error {
		facts, err := factsOf(token)
		if err != nil {
			return err
		}
		return n.Publish(facts)
	}
	stopping := make(chan struct{})
	host, _, _ := net.SplitHostPort(advertise)
	limits := api.NewLimits(log)
	server := api.Server(api.New(api.Options{Node: n, Log: log, Token: token, Guarded: s.Exposed(), Hosts: []string{host}, Version: version(), Limits: limits}, stopping), log)
	accepting := limits.Attach(server, listener)
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig = others.server(); server.TLSConfig != nil {
			served <- server.ServeTLS(accepting, "", "")
		} else {
			served <- server.Serve(accepting)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go n.Watchdog(ctx, notifier)
	go others.watch(ctx)
	go reload.run(ctx)
	failed := make(chan error, 1)
	go func() {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("listener: %w", err)
			cancel(nil)
		}
	}()
	log.Info("serving", "listen", listener.Addr().String(), "advertise", advertise, "election", s.Election,
		"store", location(s.Store), "profile", s.Profile)
	if err := notifier.Ready(); err != nil {
		log.Warn("service manager does not listen", "error", err)
	}
	context.AfterFunc(ctx, func() { _ = notifier.Stopping() })
	err = n.Run(ctx)
	close(stopping)
	// The face stays until the seat is released, so that whoever asks in between is told.
	end, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	if serr := server.Shutdown(end); serr != nil {
		_ = server.Close()
	}
	log.Info("stopped")
	select {
	case err = <-failed:
	default:
	}
	return err
}
