package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/regentd/regent"
)

// changesPerSecond is how many changes of hands others make in the measurement of a crowd: claims and releases.
const changesPerSecond = 100

// crowd measures what a client pays for the changes of others. Clients with an election and a connection of their own
// lead it for ever, on one Redis server, while one more client makes changes of hands of other elections. Without these
// changes the same is measured first, and taken off.
func crowd(ctx context.Context, l *lab, s settings) ([]table, error) {
	t := table{Title: fmt.Sprintf("%d changes of hands a second that nobody follows", changesPerSecond),
		Columns: []string{"changes/s made", "bytes/s per client", "CPU, us/s per client",
			"CPU, ms/s of the server"},
		Notes: []string{fmt.Sprintf("What is added by the changes, over %v. One process has all clients, each with an "+
			"election of its own in profile lock. The CPU of the clients includes that of the one that makes the "+
			"changes, and bytes those of its own requests: with many clients both are shared out.", s.window/4)}}

	for _, clients := range []int{1, s.crowd / 10, s.crowd} {
		r, err := crowdOf(ctx, l, clients, s.window/4)
		if err != nil {
			return nil, fmt.Errorf("%d clients: %w", clients, err)
		}
		t.Rows = append(t.Rows, r)
	}
	return []table{t}, nil
}

func crowdOf(ctx context.Context, l *lab, clients int, window time.Duration) (r row, err error) {
	server, err := l.redis()
	if err != nil {
		return r, err
	}

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	var led sync.WaitGroup
	for i := range clients {
		m, err := newRegentMember(ctx, server.addr, regent.Lock(), func(regent.Event) {})
		if err != nil {
			return r, err
		}

		led.Add(1)
		running.Go(func() {
			defer m.Close()
			_ = m.Hold(ctx, fmt.Sprint("own ", i), sync.OnceFunc(led.Done))
		})
	}

	led.Wait()
	other, err := newRegentMember(ctx, server.addr, regent.Lock(), func(regent.Event) {})
	if err != nil {
		return r, err
	}
	defer other.Close()

	idle, err := server.spend(ctx, window, func(context.Context) error { return nil })
	if err != nil {
		return r, err
	}

	terms := 0
	busy, err := server.spend(ctx, window, func(ctx context.Context) error { return changeHands(ctx, other, &terms) })
	if err != nil {
		return r, err
	}

	per := float64(clients) * window.Seconds()
	return row{fmt.Sprint(clients, " clients"), []number{
		number(float64(2*terms) / window.Seconds()),
		number(math.Max(0, busy.bytes-idle.bytes) / per),
		number(math.Max(0, float64((busy.cpu-idle.cpu).Microseconds())) / per),
		number(math.Max(0, (busy.server-idle.server)*1000) / window.Seconds()),
	}}, nil
}

// changeHands claims and releases an election again and again, until ctx ends, and counts the terms.
func changeHands(ctx context.Context, m *regentMember, terms *int) error {
	tick := time.NewTicker(2 * time.Second / changesPerSecond)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := m.Once(ctx, "others"); err != nil && ctx.Err() == nil {
			return err
		}
		*terms++
	}
}

// spent is what a server has sent, and what it and this process have used.
type spent struct {
	bytes  float64
	server float64 // seconds
	cpu    time.Duration
}

// spend returns what is spent in a time.
func (s *redisServer) spend(ctx context.Context, d time.Duration, work func(context.Context) error) (spent, error) {
	before, err := s.spent(ctx)
	if err != nil {
		return spent{}, err
	}

	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := work(short); err != nil {
		return spent{}, err
	}

	<-short.Done()
	after, err := s.spent(ctx)
	return spent{after.bytes - before.bytes, after.server - before.server, after.cpu - before.cpu},
		errors.Join(err, ctx.Err())
}

func (s *redisServer) spent(ctx context.Context) (spent, error) {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return spent{}, err
	}

	text, err := s.client.Do(ctx, s.client.B().Info().Section("stats").Section("cpu").Build()).ToString()
	if err != nil {
		return spent{}, fmt.Errorf("info: %w", err)
	}

	info := func(key string) (n float64) {
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+":"); ok {
				n, _ = strconv.ParseFloat(value, 64)
			}
		}
		return n
	}

	return spent{bytes: info("total_net_output_bytes"), server: info("used_cpu_sys") + info("used_cpu_user"),
		cpu: time.Duration(use.Utime.Nano() + use.Stime.Nano())}, nil
}
