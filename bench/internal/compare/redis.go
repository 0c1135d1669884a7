package compare

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/bench/internal/port"
)

// redisServer is a redis-server that keeps nothing on disk, and a connection of the bench to it.
type redisServer struct {
	addr   string
	client rueidis.Client
}

// redis starts a server.
func (l *lab) redis() (*redisServer, error) {
	free := port.Free()
	dir, err := l.subdir("redis")
	if err != nil {
		return nil, err
	}

	s := &redisServer{addr: port.Address(free)}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(free), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "no")
	if cmd.Err != nil {
		return nil, fmt.Errorf("%w: install it with 'scripts/install redis-server'", cmd.Err)
	}

	dieWithUs(cmd, syscall.SIGKILL)
	err = l.launch(cmd, dir, func() error {
		c, err := rueidis.NewClient(plainOption(s.addr)) // it connects at once
		if err == nil {
			s.client = c
		} else if c != nil {
			c.Close()
		}

		return err
	})
	if err != nil {
		return nil, err
	}

	l.onClose(s.client.Close)
	return s, nil
}

// plainOption returns the options of Regent's own client that matter for speed, so that a floor with them is fair.
func plainOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, ClientSetInfo: rueidis.DisableClientSetInfo,
		DisableRetry: true, DisableCache: true,
		AlwaysPipelining: true, PipelineMultiplex: -1, BlockingPipeline: -1,
		RingScaleEachConn: 8, ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
		Dialer: net.Dialer{KeepAlive: time.Hour}, // without pings, which would be counted
	}
}

// calls asks the server how often each command was called so far.
func (s *redisServer) calls(ctx context.Context) (map[string]int, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("info commandstats: %w", err)
	}
	return parseCalls(text), nil
}

// parseCalls reads lines such as cmdstat_evalsha:calls=12,usec=34,….
func parseCalls(info string) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n, _, _ := strings.Cut(rest, ",")
		if calls, err := strconv.Atoi(n); ok && err == nil {
			all[name] = calls
		}
	}

	return all
}

// requests returns how many commands clients have sent between two calls of [redisServer.calls]. The server counts
// commands of scripts like those of clients. So commands that only the scripts of a side call are left out, and so is
// INFO itself.
func requests(before, after map[string]int, inScripts []string) int {
	n := 0
	for name := range maps.Keys(after) {
		if name != "info" && !slices.Contains(inScripts, name) {
			n += after[name] - before[name]
		}
	}

	return n
}
