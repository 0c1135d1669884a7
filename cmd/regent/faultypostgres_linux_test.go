package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/regentd/regent/internal/pgtest"
)

// postgresStore is a PostgreSQL server, and in a cluster its streaming replica as well. Commits wait for the replica if
// nothing is to be lost.
type postgresStore struct {
	t       *testing.T
	primary *pgtest.Server
	replica *pgtest.Server // nil if there is none
	behind  bool           // the replica stays stopped when the primary is started again
}

func newPostgresStore(t *testing.T, f fault) faultyStore {
	t.Helper()
	dir, err := pgtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	s := &postgresStore{t: t}
	if s.primary, err = pgtest.Start(dir, "primary"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if !f.cluster {
		return s
	}

	if s.replica, err = pgtest.New(dir, "replica"); err != nil {
		t.Fatal(err)
	}
	s.run(s.replica, "pg_basebackup", "-D", s.replica.Data, "-R", "-X", "stream", "-c", "fast", "-d", s.primary.URL())
	s.check(s.replica.Start())
	if f.prepare == nil { // set after the backup, so that the replica waits for nobody when it is promoted
		s.run(s.primary, "psql", "-q", "-c", "ALTER SYSTEM SET synchronous_standby_names = '*'", s.primary.URL())
		s.run(s.primary, "psql", "-q", "-c", "SELECT pg_reload_conf()", s.primary.URL())
	}
	return s
}

func (s *postgresStore) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// run runs a program of PostgreSQL, or of the system as its user.
func (s *postgresStore) run(server *pgtest.Server, name string, args ...string) {
	s.t.Helper()
	if out, err := server.Command(name, args...).CombinedOutput(); err != nil {
		s.t.Errorf("%s: %v: %s", name, err, out)
	}
}

func (s *postgresStore) endpoint() string {
	if s.replica == nil {
		return s.primary.Addr()
	}
	return s.primary.Addr() + "," + s.replica.Addr()
}

func (s *postgresStore) address(at, cell string) string {
	table := strings.ReplaceAll(cell, "-", "_")
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&table=%s", at, table)
}

// processes returns the processes of the primary, the first one first. Each is in a process group of its own.
func (s *postgresStore) processes() []int {
	b, err := os.ReadFile(fmt.Sprint(s.primary.Data, "/postmaster.pid"))
	s.check(err)
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(first)
	s.check(err)

	all := []int{pid}
	b, err = os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	s.check(err)
	for _, child := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(child)
		s.check(err)
		all = append(all, n)
	}
	return all
}

// freeze stops the first process before it asks for the others, so that it starts none between.
func (s *postgresStore) freeze() {
	freeze(s.processes()[0])
	for _, pid := range s.processes()[1:] {
		freeze(pid)
	}
}

func (s *postgresStore) thaw() {
	for _, pid := range s.processes() {
		s.check(syscall.Kill(pid, syscall.SIGCONT))
	}
}

func (s *postgresStore) kill() {
	_ = s.primary.Stop()
	if s.replica != nil {
		_ = s.replica.Stop()
	}
}

func (s *postgresStore) start() {
	var both sync.WaitGroup
	both.Go(func() { s.check(s.primary.Start()) })
	if s.replica != nil && !s.behind {
		both.Go(func() { s.check(s.replica.Start()) })
	}
	both.Wait()
}

// saved is the copy of the primary's files.
func (s *postgresStore) saved() string { return s.primary.Data + ".saved" }

// save leaves a replica as it is, and without what the primary writes from now on.
func (s *postgresStore) save() {
	if s.replica != nil {
		s.behind = true
		return
	}
	s.run(s.primary, "cp", "-a", s.primary.Data, s.saved())
}

func (s *postgresStore) rollBack() {
	if s.replica != nil {
		s.promote(func() { s.check(s.replica.Start()) })
		return
	}

	s.check(s.primary.Stop())
	s.check(os.RemoveAll(s.primary.Data))
	s.run(s.primary, "cp", "-a", s.saved(), s.primary.Data)
	s.check(s.primary.Start())
}

// failOver kills the primary and promotes the replica, which has all that was answered: each commit waited for it.
func (s *postgresStore) failOver() { s.promote(func() {}) }

func (s *postgresStore) promote(ready func()) {
	s.check(s.primary.Stop())
	ready()
	s.run(s.replica, "psql", "-q", "-c", "SELECT pg_promote()", s.replica.URL())
}
