package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/internal/natstest"
)

// fault is a fault of a store.
type fault struct {
	name    string
	lasts   time.Duration
	total   bool           // no request is answered while it lasts
	proxied bool           // of the network, not of the server
	cluster bool           // of a store with several servers
	keeps   bool           // a minority of the servers keeps what the others lose
	prepare func(*episode) // before any fault begins; nil for nothing
	begin   func(*episode)
	end     func(*episode)
}

// servers returns how many servers a store with this fault has.
func (f fault) servers() int {
	if f.cluster {
		return 3
	}
	return 1
}

func hung(lasts time.Duration) fault {
	return fault{
		name: "hung_for_" + lasts.String(), lasts: lasts, total: true,
		begin: func(e *episode) { e.store.freeze() },
		end:   func(e *episode) { e.store.thaw() },
	}
}

// storeFaults returns the faults that every store can have. Each but the first lasts longer than a lease of 6 s.
func storeFaults() []fault {
	heal := func(e *episode) { e.proxy.heal() }
	const lasts = 8 * time.Second
	return []fault{
		hung(4 * time.Second),
		hung(8 * time.Second),
		{
			name: "refused", lasts: lasts, total: true,
			begin: func(e *episode) { e.store.kill() },
			end:   func(e *episode) { e.store.start() },
		},
		{
			name: "each_answer_3s_late", lasts: lasts, proxied: true,
			begin: func(e *episode) { e.proxy.late.Store(int64(3 * time.Second)) },
			end:   heal,
		},
		{
			name: "one_byte_at_a_time", lasts: lasts, proxied: true,
			begin: func(e *episode) { e.proxy.single.Store(true) },
			end:   heal,
		},
		{
			name: "answers_lost", lasts: lasts, total: true, proxied: true,
			begin: func(e *episode) { e.proxy.cutFrom.Store(true) },
			end:   heal,
		},
		{
			name: "requests_lost", lasts: lasts, total: true, proxied: true,
			begin: func(e *episode) { e.proxy.cutTo.Store(true) },
			end:   heal,
		},
	}
}

// restarted is a server that is killed and started at once.
func restarted() fault {
	return fault{
		name:  "restarted",
		begin: func(e *episode) { e.store.kill() },
		end:   func(e *episode) { e.store.start() },
	}
}

// rolledBack is a store that forgets a whole term of each election, and maybe once more what was written since.
func rolledBack(times int) fault {
	f := fault{
		name:    "rolled_back",
		prepare: (*episode).loseTerms,
		begin:   func(e *episode) { e.store.rollBack() },
		end:     func(*episode) {},
	}
	if times > 1 {
		f.name = "rolled_back_twice"
		f.lasts = 4 * time.Second
		f.end = f.begin
	}
	return f
}

// failedOver is a cluster whose servers are killed one after another. Each is back before the next one is killed, so
// that no answered write is lost.
func failedOver() fault {
	return fault{
		name: "failed_over", cluster: true,
		begin: func(e *episode) { e.store.failOver() },
		end:   func(*episode) {},
	}
}

// failedOverWithLoss is a cluster in which a majority comes back without the last writes. A server that has them
// comes back empty, or keeps them: NATS does not notice that its replicas differ, and reads from any of them. Members
// are then shown a register by turns as it was before and after, and each time wait for a lease.
func failedOverWithLoss(keeps bool) fault {
	f := rolledBack(1)
	f.name = "failed_over_with_loss"
	f.cluster = true
	f.keeps = keeps
	if keeps {
		f.name = "failed_over_with_loss_and_replicas_that_differ"
	}
	return f
}

// TestStoreFaults runs real processes on a real store with faults. No process dies, nobody leads past its deadline, and
// somebody leads when the store answers again. Several faults run at the same time, each on a server of its own,
// because most of this is waiting.
func TestStoreFaults(t *testing.T) {
	const atOnce = 4
	t.Parallel()
	for faults := range slices.Chunk(storeFaults(), atOnce) {
		var all []*episode
		for _, f := range faults {
			which := cells(shortLock())
			if f.name == "hung_for_8s" {
				which = append(which, &cell{kind: "serve", profile: "lock", reaper: true, cfg: regent.Lock()})
			}
			all = append(all, newEpisode(t, f, newRedisStore(t), which))
		}

		playAll(t, all)
	}
}

// TestStoreFaultsLong is the part that takes minutes: 'make faults' runs it.
func TestStoreFaultsLong(t *testing.T) {
	if os.Getenv("REGENT_LONG") == "" {
		t.Skip("it takes minutes: set REGENT_LONG, or run 'make faults'")
	}
	playAll(t, []*episode{newEpisode(t, hung(time.Minute), newRedisStore(t), cells(regent.Lock()))})
}

// serverFaults returns the faults of a store whose servers can be set back and failed over. Those of the network are of
// a single server.
func serverFaults() []fault {
	return append(storeFaults()[1:], restarted(), rolledBack(2), failedOver(), failedOverWithLoss(false))
}

// longFaults are those that only 'make faults' plays.
func longFaults() []fault {
	return append(serverFaults(), storeFaults()[0], rolledBack(1), hung(time.Minute))
}

// TestStoreFaultsNATS is TestStoreFaults on NATS, with two kinds of processes.
func TestStoreFaultsNATS(t *testing.T) {
	t.Parallel()
	playOn(t, serverFaults(), natsStores(t), fewCells)
}

// TestStoreFaultsEtcd is TestStoreFaults on etcd, with two kinds of processes.
func TestStoreFaultsEtcd(t *testing.T) {
	t.Parallel()
	playOn(t, serverFaults(), etcdStores(t), fewCells)
}

// TestStoreFaultsPostgres is TestStoreFaults on PostgreSQL, with two kinds of processes.
func TestStoreFaultsPostgres(t *testing.T) {
	t.Parallel()
	playOn(t, serverFaults(), newPostgresStore, fewCells)
}

// TestStoreFaultsServersLong has every kind of process, and more faults, on each of these stores.
func TestStoreFaultsServersLong(t *testing.T) {
	if os.Getenv("REGENT_LONG") == "" {
		t.Skip("it takes minutes: set REGENT_LONG, or run 'make faults'")
	}

	const atOnce = 3
	for _, s := range []struct {
		name   string
		start  func(*testing.T, fault) faultyStore
		faults []fault
	}{
		{"NATS", natsStores(t), append(longFaults(), failedOverWithLoss(true))},
		{"etcd", etcdStores(t), longFaults()},
		{"PostgreSQL", newPostgresStore, longFaults()},
	} {
		t.Run(s.name, func(t *testing.T) {
			for faults := range slices.Chunk(s.faults, atOnce) {
				playOn(t, faults, s.start, func() []*cell { return cells(shortLock()) })
			}
		})
	}
}

// natsStores returns a function that starts servers of NATS for one fault.
func natsStores(t *testing.T) func(*testing.T, fault) faultyStore {
	t.Helper()
	lab, err := natstest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	return func(t *testing.T, f fault) faultyStore { return newNATSStore(t, lab, f) }
}

// etcdStores returns a function that starts servers of etcd for one fault.
func etcdStores(t *testing.T) func(*testing.T, fault) faultyStore {
	t.Helper()
	lab, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	return func(t *testing.T, f fault) faultyStore { return newEtcdStore(t, lab, f) }
}

// playOn plays faults at the same time, each with servers of its own.
func playOn(t *testing.T, faults []fault, start func(*testing.T, fault) faultyStore, which func() []*cell) {
	t.Helper()
	var all []*episode
	for _, f := range faults {
		all = append(all, newEpisode(t, f, start(t, f), which()))
	}
	playAll(t, all)
}

// TestKubeFaults is TestStoreFaults on Kubernetes. An API server takes a core to start, so few run at once.
func TestKubeFaults(t *testing.T) {
	const atOnce = 3
	t.Parallel()
	which := fewCells
	if os.Getenv("REGENT_LONG") != "" {
		which = func() []*cell { return cells(shortLock()) }
	}
	for faults := range slices.Chunk(append(storeFaults()[1:], restarted(), rolledBack(2)), atOnce) {
		var all []*episode
		for _, f := range faults {
			all = append(all, newEpisode(t, f, kubeStore{t, startKube(t)}, which()))
		}
		playAll(t, all)
	}
}

// TestRunWithHungStore runs two 'regent run' without --restart on a store that hangs. The leader stops its program and
// exits with 90, as it does whenever leadership is lost. The standby lives, and runs the program when the store answers
// again.
func TestRunWithHungStore(t *testing.T) {
	t.Parallel()

	for _, profile := range []string{"cluster", "lock"} {
		t.Run("the_leader_exits_with_90_and_the_standby_takes_over_"+profile, func(t *testing.T) {
			t.Parallel()
			program, err := libprogram()
			if err != nil {
				t.Fatal(err)
			}

			redis := startRedis(t)
			claims := newLedger()
			run := func(name string) *daemon {
				args := []string{
					"run", "job", "--node", name, "--store", redis.address(), "--profile", profile,
					"--lease-duration", "20s", "--stop-timeout", "15s", "--worker-timeout", "20s",
					"--heartbeat-interval", "1500ms", "--takeover-delay", "500ms",
				}

				if profile == "lock" {
					args = append(args, "--renew-interval", "1500ms")
				}
				return launch(t, name, command(t, nil, append(args, "--", program, "claim")...), claims.parse)
			}
			leader := run("a")
			leader.await(`msg="became leader"`)
			standby := run("b")
			standby.await(`msg="leader changed"`)

			if _, err := claims.await(0, time.After(time.Minute)); err != nil {
				t.Fatal(err)
			}

			freeze(redis.cmd.Process.Pid)
			leader.await(`regent: leadership lost`)

			if !running(standby.cmd.Process.Pid) {
				t.Error("the standby has died")
			}

			answers := boottime()
			_ = redis.cmd.Process.Signal(syscall.SIGCONT)
			next, err := claims.await(answers, time.After(time.Minute))
			if err != nil || next.Node != "b" {
				t.Errorf("%+v, %v", next, err)
			}

			t.Logf("the standby leads %v after the store answers again", next.After-answers)
			select {
			case <-leader.gone:
			case <-time.After(time.Minute):
				t.Fatal("the leader, or its reaper, does not end")
			}

			if code := leader.cmd.ProcessState.ExitCode(); code != 90 {
				t.Errorf("the leader exits with %d", code)
			}

			for _, n := range []*daemon{leader, standby} {
				for _, line := range n.said(`silent past its deadline|duty:stuck`) {
					t.Errorf("%s says: %s", n.name, line)
				}
			}

			for _, text := range overlaps(claims.sessions()) {
				t.Error(text)
			}
		})
	}
}

// freeze suspends a process, and returns when all its threads are suspended.
func freeze(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for state(pid) == "R" || state(pid) == "S" || state(pid) == "D" {
	}
}

// running reports whether a process lives.
func running(pid int) bool {
	s := state(pid)
	return s != "" && s != "Z" && s != "X"
}

// state returns the state of a process as the kernel shows it, or nothing if there is no such process.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}

	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) == 0 {
		return ""
	}

	return fields[0]
}
