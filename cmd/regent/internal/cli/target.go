package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// Env is what the commands get from the process.
type Env struct {
	In        *os.File
	Out, Errs io.Writer
	Environ   []string
	Version   string

	// Open opens a store at an address to read and edit registers.
	Open func(ctx context.Context, address string) (driver.Store, error)
	// OpenChecked opens a store with all checks that its driver has, which may write. Warnings go to warn.
	OpenChecked func(ctx context.Context, address string, warn func(string)) (driver.Store, error)
	// Location returns the address of a store for people.
	Location func(address string) string
}

const (
	// addrVariable names the node that commands ask.
	addrVariable = "REGENT_ADDR"
	defaultAddr  = "127.0.0.1:7468"

	// connectTimeout is how long a node may take to accept a connection.
	connectTimeout = 5 * time.Second
	// askTimeout is how long an answer may take.
	askTimeout = 35 * time.Second
	// maxPEM is the size of the largest file of certificates, in bytes.
	maxPEM = 1 << 20
)

// target is the cluster that a command asks, as its flags name it.
type target struct {
	*Env
	cmd     *cobra.Command
	addr    string
	source  *config.Source
	format  output.Format
	timeout time.Duration // of one question
}

// newTarget adds the flags by which a command finds its cluster, and -o. The shell completes the arguments, at most
// that many, with names of the cluster.
func newTarget(env *Env, cmd *cobra.Command, names namesOf, most int) *target {
	t := &target{Env: env, cmd: cmd, format: output.Table, timeout: askTimeout}
	flags := cmd.Flags()
	flags.StringVar(&t.addr, "addr", "", "the `host:port` or URL of the node to ask [default "+defaultAddr+
		", or listen of the configuration] [variable "+addrVariable+"]")
	flags.VarP(&t.format, "output", "o", "the `format`: table, json or yaml")
	t.source = config.Flags(flags, "config", "store", "election", "tokenFile", "tlsCA", "tlsCert", "tlsKey")
	flags.Lookup("store").Usage = "ask this store, not a node: " + strings.Join(config.Schemes(), ", ") +
		" [default none: a node is asked] [variable none: REGENT_STORE is for nodes]"
	flags.Lookup("election").Usage = "the election, where none is named as an argument [default that of the node, " +
		"or coordinator] [variable REGENT_ELECTION]"
	flags.Lookup("tls-ca").Usage = "a file of certificates, one of which must have signed that of the node " +
		"[default those of the system] [variable REGENT_TLS_CA]"
	flags.Lookup("tls-cert").Usage = "the certificate file by which this command proves itself; needs tlsKey " +
		"[default \"\"] [variable REGENT_TLS_CERT]"

	cmd.ValidArgsFunction = t.complete(names, most)
	formats := cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", formats)
	_ = cmd.RegisterFlagCompletionFunc("election", t.complete(electionNames, 0))
	_ = cmd.RegisterFlagCompletionFunc("addr", t.complete(memberAddresses, 0))

	return t
}

// addTimeout adds the flag that bounds how long an answer may take.
func (t *target) addTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&t.timeout, "timeout", askTimeout, "how long an answer may take, as a `duration`")
}

// printer returns the printer of the command's output.
func (t *target) printer() *output.Printer {
	return &output.Printer{Out: t.Out, Format: t.format, Colour: output.Colours(t.Out, t.Environ)}
}

// session is a command that asks its cluster.
type session struct {
	*target
	*output.Printer
	cluster  cluster.Cluster
	settings *config.Settings
}

// open returns a session. The caller closes its cluster.
func (t *target) open(ctx context.Context) (*session, error) {
	settings, err := t.source.LoadClient(t.Environ, config.ReadFile)
	if err != nil {
		return nil, err
	}

	for _, m := range settings.Mistyped {
		fmt.Fprintln(t.Errs, "warning:", m)
	}

	s := &session{target: t, Printer: t.printer(), settings: settings}
	switch {
	case t.cmd.Flags().Changed("store") && t.cmd.Flags().Changed("addr"):
		return nil, UsageError(t.cmd, "--addr and --store exclude each other: ask a node, or the store itself")
	case t.cmd.Flags().Changed("store"):
		s.cluster, err = t.openStore(ctx, settings)
	default:
		s.cluster, err = t.openNode(settings)
	}

	return s, err
}

// openStore returns the cluster of a store.
func (t *target) openStore(ctx context.Context, settings *config.Settings) (cluster.Cluster, error) {
	if strings.HasPrefix(settings.Store, "memory:") {
		return nil, UsageError(t.cmd, "store memory: is inside the process that uses it: ask its node with --addr")
	}

	done := output.Progress(t.Errs, "opening store "+t.Location(settings.Store))
	defer done()

	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()

	store, err := t.Open(ctx, settings.Store)
	switch {
	case errors.Is(err, driver.ErrRefused):
		return nil, err
	case errors.Is(err, driver.ErrCredentials): // a node waits for them, a command does not
		return nil, &ExitError{ExitConfig, err}
	case err != nil:
		return nil, &ExitError{ExitUnreachable, plain.Error(err)}
	}

	return &cluster.Store{Address: t.Location(settings.Store), Driver: store, Config: settings.Regent}, nil
}

// openNode returns the cluster of a node.
func (t *target) openNode(settings *config.Settings) (*cluster.Node, error) {
	base, err := t.baseURL(settings)
	if err != nil {
		return nil, err
	}

	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
	}
	if base.Scheme == "https" {
		if transport.TLSClientConfig, err = clientTLS(settings); err != nil {
			return nil, err
		}
	}

	// A redirect could send the token elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &cluster.Node{
		Base: base, Token: settings.Token, Client: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// baseURL returns the address of the node: of --addr, of the variable, of the configuration, or the default.
func (t *target) baseURL(settings *config.Settings) (*url.URL, error) {
	addr, from := defaultAddr, "the default"
	for _, pair := range t.Environ {
		if value, ok := strings.CutPrefix(pair, addrVariable+"="); ok && value != "" {
			addr, from = value, "variable "+addrVariable
		}
	}
	switch {
	case t.cmd.Flags().Changed("addr"):
		addr, from = t.addr, "--addr"
	case from == "the default" && settings.Given("listen"):
		addr, from = settings.Listen, settings.Origin("listen")
	}

	given := addr
	scheme := "http"
	if settings.TLSCert != "" || settings.TLSCA != "" {
		scheme = "https"
	}
	if !strings.Contains(addr, "://") {
		addr = scheme + "://" + addr
	}

	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !validPort(u.Port()) ||
		strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, UsageError(t.cmd, "%s %q: must be host:port of a node, or http://host:port or https://host:port",
			from, config.Redact(given))
	}

	if host := u.Hostname(); host == "" || net.ParseIP(host).IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// validPort reports whether a text is a port that a node can be asked at.
func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// clientTLS returns the TLS configuration of a request.
func clientTLS(s *config.Settings) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCA != "" {
		data, err := config.ReadRegular(s.TLSCA, maxPEM)
		if err != nil {
			return nil, &ExitError{ExitConfig, fmt.Errorf("tlsCA: %w", err)}
		}

		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, &ExitError{ExitConfig, fmt.Errorf("tlsCA %s: there is no certificate in it", s.TLSCA)}
		}
	}

	if s.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
		if err != nil {
			return nil, &ExitError{ExitConfig, fmt.Errorf("tlsCert %s, tlsKey %s: %w", s.TLSCert, s.TLSKey, err)}
		}
		c.Certificates = []tls.Certificate{pair}
	}

	return c, nil
}

// run returns the function of a command that asks its cluster.
func (t *target) run(f func(context.Context, *session, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if t.timeout <= 0 {
			return UsageError(cmd, "--timeout %v: must be above 0", t.timeout)
		}

		s, err := t.open(ctx)
		if err != nil {
			return err
		}
		defer s.cluster.Close()

		return s.explain(ctx, f(ctx, s, args))
	}
}

// explain adds to an error its exit code, and what to do next.
func (s *session) explain(ctx context.Context, err error) error {
	var exit *ExitError
	var refused *cluster.RefusedError
	switch {
	case err == nil, errors.As(err, &exit), errors.Is(err, ErrUsage):
		return err
	case ctx.Err() != nil: // a signal
		return &ExitError{ExitFailure, errors.New("interrupted")}
	case errors.Is(err, cluster.ErrNeedsNode):
		return UsageError(s.cmd, "%s: %v", s.cmd.Name(), err)
	case unread(err):
		return s.unreadStore(ctx, err)
	case errors.Is(err, cluster.ErrUnreachable):
		return &ExitError{ExitUnreachable, fmt.Errorf("%w\n%s", err, s.advice(ctx, err))}
	case errors.As(err, &refused) && refused.Code == "no_leader":
		return &ExitError{ExitFailure, fmt.Errorf("%w\n'regent status' shows why nobody leads", err)}
	}

	return err
}

// bounded returns a context for one question, and a function that ends it. If the answer takes long, the command says
// so.
func (s *session) bounded(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	done := output.Progress(s.Errs, "asking "+s.cluster.Where())
	return ctx, func() {
		done()
		cancel()
	}
}

// election returns the election that a command is about: of its argument, of --election or its variable, of the node
// that is asked, or the only one that there is.
func (s *session) election(ctx context.Context, args []string) (string, error) {
	switch {
	case len(args) > 0:
		return args[0], nil
	case s.settings.Given("election"):
		return s.settings.Election, nil
	}

	node, ok := s.cluster.(*cluster.Node)
	if !ok {
		return s.settings.Election, nil
	}

	ctx, done := s.bounded(ctx)
	defer done()

	status, err := node.LocalStatus(ctx)
	return status.Election, err
}
