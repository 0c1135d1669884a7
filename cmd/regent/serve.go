package main

import (
	"context"
	"errors"
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

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/cli"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/reaper"
)

// serveCmd is 'regent serve [flags]': it runs a node until its context ends.
func serveCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "run a node, with an HTTP API for health, role, metrics and events",
		Long:  serveLong,
		Example: `  regent serve --store sqlite:/var/lib/regent.db --node node-a
  regent serve --config regent.yaml --check-config`,
		GroupID:           cli.GroupRun,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	check := cmd.Flags().Bool("check-config", false,
		"print the configuration and where each value comes from, check the store, and exit")
	format := cmd.Flags().StringP("output", "o", "text", "with --check-config: the `format`: text, json or yaml")
	source := config.Flags(cmd.Flags())

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cli.UsageError(cmd, "serve takes flags only, got %q", args[0])
		}
		return serve(cmd.Context(), source, *check, *format, io)
	}

	return cmd
}

// serve runs a node, or checks its configuration.
func serve(ctx context.Context, source *config.Source, check bool, format string, io streams) error {
	// From now on a hang-up reloads the configuration. Before, it would end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	load := func() (*config.Settings, error) { return source.Load(os.Environ(), config.ReadFile) }
	settings, err := load()
	if err != nil {
		return err
	}

	storeUnshared(settings)
	if err := settings.ChooseAdvertise(config.ThisMachine()); err != nil {
		return err
	}

	if check {
		refused := probeStore(ctx, settings)
		return errors.Join(settings.Explain(io.out, format), refused)
	}

	level := new(slog.LevelVar)
	level.Set(settings.LogLevel)
	return runNode(ctx, settings, &reloader{
		load: load, began: settings, inUse: settings.HealthCheck, level: level, log: logger(settings, level, io.errs),
		signal: hangups,
	})
}

func logger(s *config.Settings, level slog.Leveler, w io.Writer) *slog.Logger {
	return newLogger(s.LogFormat, level, w)
}

// newLogger returns a logger for a format: json, or else text.
func newLogger(format string, level slog.Leveler, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// checkStart logs the warnings of the configuration. It returns an error if the store cannot work.
func checkStart(s *config.Settings, log *slog.Logger) error {
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	return validateStore(s)
}

// storeWarning returns a function that logs a warning of the store.
func storeWarning(log *slog.Logger) func(string) {
	return func(w string) { log.Warn("store warning", "warning", w) }
}

// runNode starts a node with its listener and its reaper. It returns when all of them have stopped.
func runNode(ctx context.Context, s *config.Settings, reload *reloader) error {
	log := reload.log
	if err := checkStart(s, log); err != nil {
		return err
	}

	notifier, err := node.NewNotifier()
	if err != nil {
		return err
	}
	if reload.certs, err = newCertificates(s, log); err != nil {
		return err
	}

	reload.token = signed.NewSecret(s.Token)

	member, err := newLocalMember(s, log)
	if err != nil {
		return err
	}
	companion := startReaper(context.WithoutCancel(ctx), s, member.reaperStore(s), log)
	defer companion.Close()
	defer member.Close()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return cannotListen(s.Listen, err)
	}

	d := &daemonProcess{
		settings: s, log: log, reload: reload, notifier: notifier, companion: companion, member: member,
		listener: listener, advertise: s.Advertise, stopping: make(chan struct{}),
	}

	if !s.Given("advertise") {
		d.advertise = withPort(s.Advertise, listener) // the system may have chosen the port
	}

	if d.sidecar, err = listenSidecar(ctx, s.Sidecar); err != nil {
		_ = listener.Close()
		return err
	}

	if err := d.build(); err != nil {
		_ = listener.Close()
		return err
	}

	return d.run(ctx)
}

// daemonProcess is a node with its HTTP server.
type daemonProcess struct {
	settings  *config.Settings
	log       *slog.Logger
	reload    *reloader
	notifier  node.Notifier
	companion *reaper.Reaper
	member    *localMember // nil if the store is elsewhere
	listener  net.Listener
	sidecar   net.Listener // nil for none
	advertise string
	stopping  chan struct{} // closed when the node has stopped: event streams end

	node   *node.Node
	server *http.Server
}

// facts returns what the member publishes about itself. The token is published as a digest.
func (d *daemonProcess) facts(token string) (map[string]string, error) {
	s := d.settings
	return node.Facts(s.Election, token, s.Profile, version(), s.Regent)
}

// build makes the node and its server. It starts nothing.
func (d *daemonProcess) build() error {
	s := d.settings
	facts, err := d.facts(s.Token)
	if err != nil {
		return err
	}

	client, scheme := d.reload.certs.client()
	use := storeUse{children: len(s.Duties) > 0, jitter: s.Regent.StartupJitterMax, member: d.member}
	open := opener(s.Store, use, storeWarning(d.log))
	d.node, err = node.New(node.Options{
		Config: s.Regent, Election: s.Election, ID: s.Node, Addr: d.advertise, Facts: facts, Log: d.log,
		Store: location(s.Store), Open: forElection(s.Election, storeWarning(d.log), open),
		Lifeline: d.companion.Lifeline, Duties: programs(s, d.companion, d.log),
		Now: testClock(os.Getenv(testClockFile)), HealthCheck: healthCheck(s),
		Coordination: node.Coordination{
			Token: d.reload.token, Client: client, Scheme: scheme, Polls: s.Polls, Worker: s.Worker,
			DataDir: s.DataDir, Tasks: s.Tasks, TaskBytes: s.TaskBytes, ExecPolls: s.ExecPolls,
			RetireAfter: s.RetireAfter,
		},
	})
	if err != nil {
		return err
	}

	d.reload.healthCheck = func(s *config.Settings) { d.node.SetHealthCheck(healthCheck(s)) }
	d.reload.publish = func(token string) error {
		facts, err := d.facts(token)
		if err != nil {
			return err
		}
		return d.node.Publish(facts)
	}

	host, _, _ := net.SplitHostPort(d.advertise)
	limits := api.NewLimits(d.log)
	handler := api.New(api.Options{
		Node: d.node, Log: d.log, Token: d.reload.token, Guarded: s.Exposed(),
		Hosts: []string{host}, Version: version(), Limits: limits,
		EventPrefix: s.EventPrefix,
	}, d.stopping)
	d.server = api.Server(handler, d.log)
	d.server.TLSConfig = d.reload.certs.server()
	d.listener = limits.Attach(d.server, d.listener)

	return nil
}

// run serves until ctx ends. It stops in the order of C06: duties, the election, then everything else.
func (d *daemonProcess) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	failed := make(chan error, 2)
	go func() {
		if err := d.accept(); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("listener: %w", err)
			cancel()
		}
	}()

	go func() {
		select {
		case err := <-d.member.Failed():
			failed <- err
			cancel()
		case <-ctx.Done():
		}
	}()

	if d.sidecar != nil {
		go serveSidecar(ctx, d.sidecar, d.node, d.log)
	}
	go d.node.Watchdog(ctx, d.notifier)
	go d.reload.certs.watch(ctx)
	go d.reload.run(ctx)

	s := d.settings
	d.log.Info("serving", "listen", d.listener.Addr().String(), "advertise", d.advertise, "election", s.Election,
		"store", location(s.Store), "profile", s.Profile)

	if err := d.notifier.Ready(); err != nil {
		d.log.Warn("service manager cannot be notified", "error", err)
	}

	context.AfterFunc(ctx, func() { _ = d.notifier.Stopping() })

	err := d.node.Run(ctx)
	d.shutDown()

	select {
	case err = <-failed:
	default:
	}

	return err
}

// accept serves the listener until the server is shut down.
func (d *daemonProcess) accept() error {
	if d.server.TLSConfig != nil {
		return d.server.ServeTLS(d.listener, "", "")
	}
	return d.server.Serve(d.listener)
}

// shutDown stops the server. It comes after the release of the election, so that the node answers until then.
func (d *daemonProcess) shutDown() {
	close(d.stopping)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	if err := d.server.Shutdown(ctx); err != nil {
		_ = d.server.Close()
	}
	d.log.Info("stopped")
}

// cannotListen adds to an error the key, its value, and what to do about it.
func cannotListen(address string, err error) error {
	err = fmt.Errorf("listen %q: %w", address, err)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("%w: the host of listen must be an address of this machine, or 0.0.0.0 for all of them", err)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another process listens there: stop it, or choose another address with --listen "+
			"(port 0 takes any free one)", err)
	}
	return err
}

// withPort returns the address of a listener. If the listener has all addresses, it returns that address with the port.
func withPort(address string, listener net.Listener) string {
	tcp, ok := listener.Addr().(*net.TCPAddr)
	host, _, err := net.SplitHostPort(address)
	if !ok || err != nil || !tcp.IP.IsUnspecified() {
		return listener.Addr().String()
	}

	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
