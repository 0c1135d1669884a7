package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// breed is a kind of process that campaigns.
type breed struct {
	name    string
	command func(name string) *exec.Cmd
	waits   string // what it says when it stands by
	leads   string // and when it leads
	ttl     time.Duration
	byLease bool // once killed it is replaced when its lease has run out, and not before
}

const ourLease = 30 * time.Second

// processes is the time from a signal to the process that leads until the other says that it does. What it says arrives through a pipe, and
// its time is that of its arrival here.
func processes(ctx context.Context, l *lab, s settings) ([]table, error) {
	open, notes, err := l.addresses(ctx)
	if err != nil {
		return nil, err
	}
	breeds, err := l.breeds(ctx, open, s)
	if err != nil {
		return nil, err
	}
	var lines []*lineage
	defer func() {
		for _, g := range lines {
			g.close()
		}
	}()
	for _, b := range breeds {
		// A node keeps files of its own in its working directory, by its name: each breed has another.
		dir, err := l.subdir("nodes")
		if err != nil {
			return nil, err
		}
		g, err := newLineage(b, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		lines = append(lines, g)
	}
	took := map[syscall.Signal]map[string]sample{syscall.SIGTERM: {}, syscall.SIGKILL: {}}
	for round := range s.rounds {
		for _, g := range lines {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				if sig == syscall.SIGKILL && g.breed.byLease && round >= s.leases {
					continue
				}
				d, err := g.succeed(ctx, sig)
				if err != nil {
					return nil, fmt.Errorf("%s, %v: %w", g.breed.name, sig, err)
				}
				took[sig][g.breed.name] = append(took[sig][g.breed.name], d)
			}
		}
	}
	notes = append(notes,
		"`serve` says that it leads in its log; under `run` it is the program's first word, so that starting the program, and stopping that of the one before, count too.",
		"Peers are processes of the bench's own; after a kill those on Redis wait for their lease.")
	for _, g := range lines {
		if g.unwoken > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d times the waiter did not lead in %v, and the round was repeated.", g.breed.name, g.unwoken, patience))
		}
	}
	return []table{
		takeoverTable("after SIGTERM, ms", breeds, took[syscall.SIGTERM], nil),
		takeoverTable("after SIGKILL, ms", breeds, took[syscall.SIGKILL], notes),
	}, nil
}

func takeoverTable(title string, breeds []breed, took map[string]sample, notes []string) table {
	t := table{Title: title, Columns: []string{"lease, s", "p50", "p99", "worst", "least", "rounds"}, Notes: notes}
	for _, b := range breeds {
		all := took[b.name]
		ttl := number(b.ttl.Seconds())
		if b.ttl == 0 {
			ttl = none
		}
		t.Rows = append(t.Rows, row{b.name, append(append([]number{ttl}, all.ms(50, 99, 100, 0)...), number(len(all)))})
	}
	return t
}

// breeds are Regent's command in three ways, and the peers.
func (l *lab) breeds(ctx context.Context, open func(side) (string, bool), s settings) (all []breed, err error) {
	bin, err := filepath.Abs(s.regent) // nodes run elsewhere
	if s.regent == "" {
		bin = filepath.Join(l.dir, "regent")
		err = buildRegent(ctx, bin)
	}
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, side := range sides(s.lease) {
		addr, ok := open(side)
		switch {
		case !ok:
		case side.name == regentLock:
			all = append(all, serveBreed(bin, addr, "lock"), runBreed(bin, addr))
		case side.name == regentCluster:
			all = append(all, serveBreed(bin, addr, "cluster"))
		default:
			b := breed{name: side.name, waits: saysWaits, leads: saysLeads, ttl: s.lease, byLease: true, command: func(string) *exec.Cmd {
				return exec.Command(self, role{Side: side.name, Addr: addr, TTL: s.lease}.args()...)
			}}
			if side.postgres { // the server notices by itself, and there is no lease
				b.ttl, b.byLease = 0, false
			}
			all = append(all, b)
		}
	}
	return all, nil
}

func serveBreed(bin, addr, profile string) breed {
	return breed{name: "`regent serve`, profile " + profile, ttl: ourLease, waits: `msg="leader changed"`, leads: `msg="became leader"`,
		command: func(name string) *exec.Cmd {
			return bare(exec.Command(bin, "serve", "--node", name, "--store", "redis://"+addr, "--listen", "127.0.0.1:0",
				"--election", "bench:serve:"+profile, "--profile", profile, "--lease-duration", ourLease.String()))
		}}
}

func runBreed(bin, addr string) breed {
	return breed{name: "`regent run`, profile lock", ttl: ourLease, waits: `msg="leader changed"`, leads: "the program runs",
		command: func(name string) *exec.Cmd {
			return bare(exec.Command(bin, "run", "bench:run", "--node", name, "--store", "redis://"+addr, "--profile", "lock",
				"--lease-duration", ourLease.String(), "--", "sh", "-c", "echo the program runs; exec sleep 1000000"))
		}}
}

// bare takes away the variables of this process that would configure the command.
func bare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "REGENT_") || strings.HasPrefix(v, "COORDINATOR_") })
	return cmd
}

// buildRegent builds the command as users have it.
func buildRegent(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin, "github.com/regentd/regent/cmd/regent")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build regent (run the bench inside of the checkout): %w: %s", err, said)
	}
	return nil
}
