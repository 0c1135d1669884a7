// Package embedded runs a member of an etcd cluster inside this process, so that a few hosts have a store without a
// server beside it. The engine is etcd's own: go.etcd.io/etcd/server/v3/embed.
//
// What it assumes:
//   - Three members or five, each on a host and a disk of its own. A majority of them must run: without one there is no
//     store.
//   - The disk keeps what it has synced. A member whose directory was lost is removed and added again: one that came
//     back empty under its old identity could break what it had promised to the others.
//   - The listeners are for members alone. Beyond loopback they need TLS with certificates for both sides.
//
// What it does not guarantee:
//   - That the process survives its member: if the member cannot write its disk, the process ends, as etcd's own does.
//
// The shortest program, on which package etcd opens the store at config.ClientAddress():
//
//	config, err := embedded.Parse(os.Getenv("STORE_ADDRESS"), "node-a")
//	if err != nil {
//		log.Fatal(err)
//	}
//	member, err := embedded.Start(ctx, config, embedded.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer member.Close()
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// token goes into the IDs of a new cluster and of its members.
	token = "regent"
	// history is how long old revisions are kept. Every heartbeat is one, and nobody reads old ones.
	history = 10 * time.Minute
	// quiet is how long a warning of etcd is not repeated: without a majority some come several times in a second.
	quiet = 30 * time.Second
	// slow is how long a request may take without a warning. Without it etcd warns of every one.
	slow = embed.DefaultWarningUnaryRequestDuration
	// heartbeats is how many heartbeats of etcd's leader are in an election timeout.
	heartbeats = 10
)

// Options configures a [Member]. The zero value is usable.
type Options struct {
	Log *slog.Logger // gets what etcd warns of; nil for the default
}

// Member is a member of an etcd cluster in this process.
type Member struct {
	etcd    *embed.Etcd
	config  *Config
	closing *atomic.Bool // for the log
	failed  chan error
	closed  chan struct{}
	once    sync.Once
	end     sync.WaitGroup
}

// Start starts the member of this process. It does not wait for a majority of the others.
//
// An empty directory joins a cluster to which the member was added. It begins a new one if the address says state=new
// and none of the other members answers for a cluster that this member was in. Any other empty directory is an error.
// Start may be called again after an error that is no [driver.ErrRefused].
func Start(ctx context.Context, c *Config, opts Options) (*Member, error) {
	if err := c.MustRun(); err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}

	log := &core{log: opts.Log, dir: c.Dir, closing: new(atomic.Bool)}
	settings, err := c.settings(log)
	if err != nil {
		return nil, err
	}
	if !c.hasData() {
		if err := c.begin(ctx, settings); err != nil {
			return nil, fmt.Errorf("etcd member %s: %w", c.Name, err)
		}
	} else if c.New {
		opts.Log.Warn("state=new is for the first start alone: take it out of the store's address. With it, a member "+
			"that has lost its directory could begin again as if it had promised nothing", "dir", c.Dir)
	}

	e, err := embed.StartEtcd(settings)
	if err != nil {
		return nil, fmt.Errorf("etcd member %s: %w", c.Name, c.explain(err))
	}
	m := &Member{etcd: e, config: c, closing: log.closing, failed: make(chan error, 1), closed: make(chan struct{})}
	m.end.Go(m.watch)
	return m, nil
}

// hasData reports whether this member has run before.
func (c *Config) hasData() bool { return wal.Exist(filepath.Join(c.Dir, "member", "wal")) }

// settings returns etcd's configuration of this member.
func (c *Config) settings(log zapcore.Core) (*embed.Config, error) {
	own, _ := c.own()
	s := embed.NewConfig()
	s.Name, s.Dir = c.Name, c.Dir
	s.InitialClusterToken = token
	s.TickMs = uint((c.ElectionTimeout / heartbeats).Milliseconds())
	s.ElectionMs = uint(c.ElectionTimeout.Milliseconds())
	s.AutoCompactionMode = embed.CompactorModePeriodic
	s.AutoCompactionRetention = history.String()
	s.EnableGRPCGateway = false // a second protocol on the port for clients, which nobody needs
	s.WarningUnaryRequestDuration = slow
	s.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(zapcore.NewSamplerWithOptions(log, quiet, 1, 0)))

	s.AdvertisePeerUrls = c.urls(own.Peer)
	s.AdvertiseClientUrls = c.urls(own.Client)
	s.ListenPeerUrls = c.urls(c.bind(own.Peer))
	s.ListenClientUrls = c.urls(c.bind(own.Client))

	if c.Cert != "" {
		s.PeerTLSInfo = c.tlsFiles()
		s.ClientTLSInfo = c.tlsFiles()
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, driver.Refused(driver.WithProblem(driver.ProblemFile, fmt.Errorf("etcd member %s: directory %s: "+
			"this user must be able to create and write it: %w", c.Name, c.Dir, err)))
	}
	return s, nil
}

// tlsFiles returns the files for TLS. Both sides of a connection must show a certificate of the CA.
func (c *Config) tlsFiles() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: c.Cert, KeyFile: c.Key, TrustedCAFile: c.CA, ClientCertAuth: true, MinVersion: tlsVersion,
	}
}

// bind returns where to listen for an advertised address.
func (c *Config) bind(address string) string {
	if c.Listen == "" {
		return address
	}
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(c.Listen, port)
}

func (c *Config) urls(address string) []url.URL {
	u, _ := url.Parse(c.url(address)) // it was parsed before
	return []url.URL{*u}
}

// explain adds to an error of etcd what to do about it.
func (c *Config) explain(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "already been bootstrapped"):
		return c.lost()
	case strings.Contains(text, "cannot access data directory"), strings.Contains(text, "permission denied"):
		return driver.Refused(driver.WithProblem(driver.ProblemFile,
			fmt.Errorf("directory %s: this user must be able to write it: %w", c.Dir, err)))
	}
	return err
}

// Failed returns a channel that gets an error if the member stops by itself.
func (m *Member) Failed() <-chan error { return m.failed }

// Closed returns a channel that is closed by Close.
func (m *Member) Closed() <-chan struct{} { return m.closed }

// watch waits until the member stops.
func (m *Member) watch() {
	var cause error
	select {
	case <-m.closed:
		return
	case cause = <-m.etcd.Err():
	case <-m.etcd.Server.StopNotify():
		cause = errors.New("etcd has stopped; its last warnings say why")
	}

	select {
	case <-m.closed: // which has stopped it
		return
	default:
	}
	if m.etcd.Server.Cluster().Member(m.etcd.Server.MemberID()) == nil || m.gone() {
		cause = driver.Refused(fmt.Errorf("this member was removed from the cluster: to add it again, delete its "+
			"directory %s, run 'regent etcd add %s' on another host, and start it", m.config.Dir, m.config.Name))
	}
	m.failed <- fmt.Errorf("etcd member %s: %w", m.config.Name, cause)
}

// Close stops the member. If it leads the etcd cluster, it hands over first.
func (m *Member) Close() {
	m.once.Do(func() {
		m.closing.Store(true)
		close(m.closed)
		m.etcd.Close()
		m.end.Wait()
	})
}
