package reaper

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
	"github.com/regentd/regent/store/redis"
	"github.com/regentd/regent/store/sqlite"
	"golang.org/x/sys/unix"
)

// The test binary is also the member and its reaper. Processes, signals and time are real.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if !slices.Contains(os.Args, "without-main") {
		Main(open)
	}

	if len(os.Args) < 3 || os.Args[1] != "member" {
		os.Exit(m.Run())
	}

	if err := member(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open opens SQLite so that it does not prove deaths: only the companion can release a lease before it expires.
func open(ctx context.Context, address string) (driver.Store, error) {
	path, ok := strings.CutPrefix(address, "sqlite:")
	if !ok {
		return redis.Open(ctx, address, redis.Options{})
	}
	path, _, _ = strings.Cut(path, "?")
	return sqlite.Open(ctx, path, sqlite.Options{NoWitness: true})
}

const seat = "seat"

// setup configures a member process.
type setup struct {
	Store, Name string
	Config      regent.Config
	Shell       string // what it runs while it leads; it holds the seat only if empty
}

// report is a line that a member process writes.
type report struct {
	Kind  string
	At    time.Duration // CLOCK_BOOTTIME
	Epoch uint64        `json:",omitempty"`
	Until time.Duration `json:",omitempty"` // of a lifeline: its deadline
	Holds bool          `json:",omitempty"` // of a lifeline
	PID   int           `json:",omitempty"`
	Alive []int         `json:",omitempty"` // of the processes that it was ordered to check when it leads
	Text  string        `json:",omitempty"`
}

// member is a process that campaigns with a reaper beside it, and obeys orders: "check PID", "reaper", "deafen",
// "flood", "ebb", "quit", "close".
func member(arg string) error {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}

	out := make(chan report, 1000)
	go func() {
		for r := range out {
			b, _ := json.Marshal(r)
			fmt.Println(string(b))
		}
	}()

	say := func(r report) { r.At = boottime(); out <- r }
	store, err := open(context.Background(), s.Store)
	if err != nil {
		return err
	}

	r, err := Start(context.Background(), Options{Store: s.Store, StopTimeout: s.Config.StopTimeout})
	if err != nil {
		return err
	}

	var checked []int
	m := &regent.Member{Store: store, ID: s.Name, Config: s.Config,
		OnEvent: func(e regent.Event) { say(report{Kind: string(e.Kind), Epoch: e.Epoch}) },
		OnLifeline: func(l regent.Lifeline) {
			until := boottime() + l.Left
			r.Lifeline(l)
			if !l.Stopped {
				say(report{Kind: "lifeline", Until: until, Holds: l.Holds})
			}
		}}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	go func() {
		if s.Shell != "" {
			err := m.Lead(ctx, seat, func(ctx context.Context, _ regent.Term) error { return shell(ctx, r, s) })
			say(report{Kind: "out", Text: fmt.Sprint(err)})
			return
		}

		err := m.Lead(ctx, seat, func(ctx context.Context, t regent.Term) error {
			rep := report{Kind: "leads", Epoch: t.Epoch, At: boottime()}
			for _, pid := range checked {
				if lives(pid) {
					rep.Alive = append(rep.Alive, pid)
				}
			}

			out <- rep
			<-ctx.Done()
			return nil
		})

		say(report{Kind: "out", Text: fmt.Sprint(err)})
	}()

	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		word, arg, _ := strings.Cut(orders.Text(), " ")
		switch word {
		case "check":
			pid, _ := strconv.Atoi(arg)
			checked = append(checked, pid)
			say(report{Kind: "checks", PID: pid})
		case "reaper":
			r.mu.Lock()
			asked := r.asked
			r.mu.Unlock()
			r.await(asked)
			say(report{Kind: "reaper", PID: r.PID()})
		case "deafen":
			r.mu.Lock()
			_ = r.child.pipe.Close()
			r.mu.Unlock()
			say(report{Kind: "deaf"})
		case "flood", "ebb": // more than a pipe takes in at once, and the end of it
			for i := range 2000 {
				r.Lifeline(regent.Lifeline{
					Register: fmt.Sprint("flood ", i),
					Holder:   driver.Identity{ID: "x", Incarnation: "x"},
					Left:     time.Hour,
					Over:     word == "ebb",
				})
			}

			say(report{Kind: word})
		case "quit":
			cancel()
		case "close":
			r.Close()
			say(report{Kind: "closed"})
		}
	}

	return nil
}

// shell runs a shell and tracks what it starts, until ctx ends.
func shell(ctx context.Context, r *Reaper, s setup) error {
	tree := proctree.New()
	r.Track(tree)
	defer r.Untrack(tree)

	cmd := exec.Command("/bin/sh", "-c", s.Shell)
	cmd.Env = append(os.Environ(), tree.Mark)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}

	tree = tree.Started(cmd.Process.Pid)
	r.Track(tree)

	<-ctx.Done()
	tree.Stop(s.Config.StopTimeout/2, func() {})
	return cmd.Wait()
}

// lives reports whether a process runs, and is no zombie.
func lives(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)

	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}
