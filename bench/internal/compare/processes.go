package compare

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

// processKind is a kind of process that campaigns.
type processKind struct {
	name    string
	command func(name string) *exec.Cmd
	waits   string // in the line that it writes when it stands by
	leads   string // in the line that it writes when it leads
	ttl     time.Duration
	byLease bool // a standby takes over from a killed one when its lease has expired
}

const ourLease = 30 * time.Second

// processes measures the time from a signal to the leader until the line arrives by which another process says that it
// leads.
func processes(ctx context.Context, l *lab, s settings) ([]table, error) {
	open, notes, err := l.addresses(ctx)
	if err != nil {
		return nil, err
	}

	kinds, err := l.processKinds(ctx, open, s)
	if err != nil {
		return nil, err
	}

	terminated, killed, unwoken, err := l.successions(ctx, kinds, s)
	if err != nil {
		return nil, err
	}

	notes = append(notes,
		"`serve` says that it leads in its log; under `run` it is the program's first word, so that starting the "+
			"program, and stopping that of the one before, count too.",
		"Peers are processes of the bench's own; after a kill those on Redis wait for their lease.")
	notes = append(notes, unwoken...)
	return []table{
		takeoverTable("after SIGTERM, ms", kinds, terminated, nil),
		takeoverTable("after SIGKILL, ms", kinds, killed, notes),
	}, nil
}

// successions starts a succession of each kind, and measures all in turn. Its notes say what it had to repeat.
func (l *lab) successions(ctx context.Context, kinds []processKind, s settings) (terminated, killed map[string]sample,
	notes []string, err error) {
	var all []*succession
	defer func() {
		for _, g := range all {
			g.close()
		}
	}()

	for _, k := range kinds {
		// A node keeps files in its working directory, by its name. So each kind has a directory of its own.
		dir, err := l.subdir("nodes")
		if err != nil {
			return nil, nil, nil, err
		}

		g, err := newSuccession(k, dir)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", k.name, err)
		}
		all = append(all, g)
	}

	terminated, killed, err = takeovers(ctx, all, s)
	for _, g := range all {
		if g.unwoken > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d times the waiter did not lead in %v, and the round was repeated.",
				g.kind.name, g.unwoken, waitLimit))
		}
	}
	return terminated, killed, notes, err
}

// takeovers measures all successions in turn. It returns the times after SIGTERM and after SIGKILL, by kind.
func takeovers(ctx context.Context, all []*succession, s settings) (terminated, killed map[string]sample, err error) {
	terminated = map[string]sample{}
	killed = map[string]sample{}
	measure := func(g *succession, sig syscall.Signal, took map[string]sample) error {
		d, err := g.succeed(ctx, sig)
		if err != nil {
			return fmt.Errorf("%s, %v: %w", g.kind.name, sig, err)
		}

		took[g.kind.name] = append(took[g.kind.name], d)
		return nil
	}

	for round := range s.rounds {
		for _, g := range all {
			if err := measure(g, syscall.SIGTERM, terminated); err != nil {
				return nil, nil, err
			}
			if g.kind.byLease && round >= s.leases {
				continue
			}
			if err := measure(g, syscall.SIGKILL, killed); err != nil {
				return nil, nil, err
			}
		}
	}

	return terminated, killed, nil
}

func takeoverTable(title string, kinds []processKind, took map[string]sample, notes []string) table {
	t := table{Title: title, Columns: []string{"lease, s", "p50", "p99", "worst", "least", "rounds"}, Notes: notes}
	for _, b := range kinds {
		all := took[b.name]
		ttl := number(b.ttl.Seconds())
		if b.ttl == 0 {
			ttl = none
		}

		t.Rows = append(t.Rows, row{b.name, append(append([]number{ttl}, all.ms(50, 99, 100, 0)...), number(len(all)))})
	}

	return t
}

// processKinds returns Regent's command on every store that notifies, and the peers.
func (l *lab) processKinds(ctx context.Context, open func(side) (string, bool), s settings) (all []processKind,
	err error) {
	bin, err := l.command(ctx, s)
	if err != nil {
		return nil, err
	}

	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	embedded, err := l.sqlite()
	if err != nil {
		return nil, err
	}

	for _, profile := range []string{"lock", "cluster"} {
		all = append(all, serveKind(bin, embedded, profile))
	}

	for _, side := range sides(s.lease) {
		addr, ok := open(side)
		switch {
		case !ok:
		case side.name == regentLock:
			all = append(all, serveKind(bin, "redis://"+addr, "lock"), runKind(bin, addr))
		case side.name == regentCluster:
			all = append(all, serveKind(bin, "redis://"+addr, "cluster"))
		default:
			b := processKind{name: side.name, waits: saysWaits, leads: saysLeads, ttl: s.lease, byLease: true,
				command: func(string) *exec.Cmd {
					return exec.Command(self, role{Side: side.name, Addr: addr, TTL: s.lease}.args()...)
				}}

			if side.postgres { // the server notices that the connection has ended
				b.ttl = 0
				b.byLease = false
				all = append(all, serveKind(bin, addr, "lock"), serveKind(bin, addr, "cluster"))
			}

			all = append(all, b)
		}
	}

	return all, nil
}

// serveKind is `regent serve` on the store with that address.
func serveKind(bin, address, profile string) processKind {
	scheme, _, _ := strings.Cut(address, ":")
	return processKind{name: "`regent serve`, " + scheme + ", profile " + profile, ttl: ourLease,
		waits: `msg="leader changed"`, leads: `msg="became leader"`,
		command: func(name string) *exec.Cmd {
			return bare(exec.Command(bin, "serve", "--node", name, "--store", address, "--listen", "127.0.0.1:0",
				"--election", "bench:serve:"+profile, "--profile", profile, "--lease-duration", ourLease.String()))
		}}
}

func runKind(bin, addr string) processKind {
	return processKind{name: "`regent run`, profile lock", ttl: ourLease, waits: `msg="leader changed"`,
		leads: "the program runs",
		command: func(name string) *exec.Cmd {
			return bare(exec.Command(bin, "run", "bench:run", "--node", name, "--store", "redis://"+addr, "--profile",
				"lock",
				"--lease-duration", ourLease.String(), "--", "sh", "-c", "echo the program runs; exec sleep 1000000"))
		}}
}

// bare removes the variables of this process that would configure the command.
func bare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "REGENT_") || strings.HasPrefix(v, "COORDINATOR_")
	})
	return cmd
}

// command returns the path of the regent command, which it builds unless the settings name one.
func (l *lab) command(ctx context.Context, s settings) (string, error) {
	if s.regent != "" {
		return filepath.Abs(s.regent) // nodes have other working directories
	}
	bin := filepath.Join(l.dir, "regent")
	return bin, buildRegent(ctx, bin)
}

// buildRegent builds the regent command, in the workspace even if this module is not part of it.
func buildRegent(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin, "github.com/regentd/regent/cmd/regent")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOWORK=") })
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build regent (run the bench inside of the checkout): %w: %s", err, said)
	}
	return nil
}
