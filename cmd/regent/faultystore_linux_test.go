package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/internal/kubetest"
	"github.com/regentd/regent/internal/natstest"
)

// faultyStore is the store of an episode: real servers that a fault can freeze, kill and set back.
type faultyStore interface {
	endpoint() string               // host:port of the servers
	address(at, cell string) string // of one cell, whose servers are at an endpoint: cells share the servers alone

	freeze()
	thaw()
	kill()
	start() // after kill; it returns when the servers answer

	save()     // while they are killed: what the store holds
	rollBack() // kills them, brings back what was saved, and starts them
	failOver() // of a cluster: each server is killed once
}

// unsaved is a store that is neither set back nor failed over.
type unsaved struct{}

func (unsaved) save()     { panic("no fault of this store needs it") }
func (unsaved) rollBack() { panic("no fault of this store needs it") }
func (unsaved) failOver() { panic("no fault of this store needs it") }

// redisStore is a Redis server.
type redisStore struct {
	*redisServer
	unsaved
}

func newRedisStore(t *testing.T) redisStore {
	t.Helper()
	return redisStore{redisServer: startRedis(t)}
}

func (r redisStore) endpoint() string               { return "127.0.0.1:" + r.port }
func (r redisStore) address(at, cell string) string { return "redis://" + at + "?prefix=" + cell + ":" }
func (r redisStore) freeze()                        { freeze(r.cmd.Process.Pid) }
func (r redisStore) thaw()                          { _ = r.cmd.Process.Signal(syscall.SIGCONT) }

func (r redisStore) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// testServer is one server of a store that keeps its data on several.
type testServer interface {
	Start() error
	Kill()
	Freeze() error
	Thaw() error
	Data() string
	Save() (restore func() error, err error)
}

// replicated is a single server, or a cluster of three.
type replicated struct {
	t       *testing.T
	servers []testServer
	restore []func() error // of a majority of servers
	keeps   bool           // the others keep what these lose
}

// natsStore is NATS with JetStream.
type natsStore struct {
	*replicated
	hosts string
}

func newNATSStore(t *testing.T, lab *natstest.Lab, f fault) faultyStore {
	t.Helper()
	all, err := lab.Start(strings.ReplaceAll(f.name, "_", "-"), f.servers(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { natstest.Stop(all) })
	return natsStore{newReplicated(t, f, all), strings.TrimPrefix(natstest.Address(all, ""), "nats://")}
}

func (s natsStore) endpoint() string { return s.hosts }

func (s natsStore) address(at, cell string) string {
	return fmt.Sprintf("nats://%s/%s?replicas=%d", at, cell, len(s.servers))
}

// etcdStore is etcd.
type etcdStore struct {
	*replicated
	hosts string
}

func newEtcdStore(t *testing.T, lab *etcdtest.Lab, f fault) faultyStore {
	t.Helper()
	all, err := lab.Start(strings.ReplaceAll(f.name, "_", "-"), f.servers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcdtest.Stop(all) })
	return etcdStore{newReplicated(t, f, all), strings.TrimPrefix(etcdtest.Address(all, ""), "etcd://")}
}

func (s etcdStore) endpoint() string { return s.hosts }

func (s etcdStore) address(at, cell string) string { return "etcd://" + at + "/" + cell }

func newReplicated[S testServer](t *testing.T, f fault, all []S) *replicated {
	s := &replicated{t: t, keeps: f.keeps}
	for _, one := range all {
		s.servers = append(s.servers, one)
	}
	return s
}

// each does something with servers at the same time: one alone is never ready.
func (s *replicated) each(servers []testServer, do func(testServer) error) {
	var all sync.WaitGroup
	for _, one := range servers {
		all.Go(func() {
			if err := do(one); err != nil {
				s.t.Error(err)
			}
		})
	}
	all.Wait()
}

func (s *replicated) freeze() { s.each(s.servers, testServer.Freeze) }
func (s *replicated) thaw()   { s.each(s.servers, testServer.Thaw) }
func (s *replicated) start()  { s.each(s.servers, testServer.Start) }

func (s *replicated) kill() {
	for _, one := range s.servers {
		one.Kill()
	}
}

func (s *replicated) save() {
	for _, one := range s.servers[:len(s.servers)/2+1] {
		back, err := one.Save()
		if err != nil {
			s.t.Error(err)
			return
		}
		s.restore = append(s.restore, back)
	}
}

// rollBack brings back the files of a majority. Its servers elect a leader before the others are started.
func (s *replicated) rollBack() {
	s.kill()
	for _, other := range s.servers[len(s.restore):] {
		if !s.keeps {
			if err := os.RemoveAll(other.Data()); err != nil {
				s.t.Error(err)
			}
		}
	}
	for _, back := range s.restore {
		if err := back(); err != nil {
			s.t.Error(err)
			return
		}
	}
	s.each(s.servers[:len(s.restore)], testServer.Start)
	s.each(s.servers[len(s.restore):], testServer.Start)
}

func (s *replicated) failOver() {
	for _, one := range s.servers {
		one.Kill()
		if err := one.Start(); err != nil {
			s.t.Error(err)
		}
	}
}

// kubeStore is an API server with its etcd.
type kubeStore struct {
	t *testing.T
	*kubetest.Server
}

func (s kubeStore) endpoint() string { return strings.TrimPrefix(s.URL(), "https://") }

func (s kubeStore) address(at, cell string) string {
	file, err := s.Kubeconfig(kubetest.Admin, "https://"+at)
	if err != nil {
		s.t.Error(err)
	}
	return "kube://default?prefix=" + cell + "&kubeconfig=" + file
}

func (s kubeStore) check(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

func (s kubeStore) freeze() { s.check(s.Freeze()) }
func (s kubeStore) thaw()   { s.check(s.Thaw()) }
func (s kubeStore) kill()   { s.Kill() }
func (s kubeStore) start()  { s.check(s.Restart()) }

// saved is the copy of etcd's files.
func (s kubeStore) saved() string { return filepath.Join(s.Dir, "saved") }

func (s kubeStore) save() {
	s.Etcd().Kill()
	s.check(os.CopyFS(s.saved(), os.DirFS(s.Etcd().Data())))
	s.check(s.Etcd().Start())
}

func (s kubeStore) rollBack() {
	s.Kill()
	s.Etcd().Kill()
	s.check(os.RemoveAll(s.Etcd().Data()))
	s.check(os.CopyFS(s.Etcd().Data(), os.DirFS(s.saved())))
	s.check(s.Etcd().Start())
	s.check(s.Restart())
}

func (kubeStore) failOver() { panic("API servers are killed by other faults: their cluster is etcd") }
