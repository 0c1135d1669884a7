//go:build embedded

package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/etcd/embedded"
)

// cluster returns the store's cluster.
func (c *etcdCall) cluster() (*embedded.Config, error) {
	s := c.settings
	if !strings.HasPrefix(s.Store, embedded.Scheme) {
		return nil, driver.Refused(fmt.Errorf("store %s: must begin with %sDIR; other stores have tools of their own",
			config.Redact(s.Store), embedded.Scheme))
	}
	return embedded.Parse(s.Store, s.Node)
}

// etcdMembers is 'regent etcd members'.
func etcdMembers(ctx context.Context, c *etcdCall) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	all, err := cluster.Members(ctx)
	if err != nil {
		return &exitError{Code: exitUnreachable, Err: err}
	}
	if c.Format != output.Table {
		return c.Data(all)
	}

	tones := map[string]output.Tone{
		embedded.StateLeader: output.Good, embedded.StateFollower: output.Good, embedded.StateNotJoined: output.Warning,
	}
	rows := &output.Rows{Header: []string{"MEMBER", "STATE", "SIZE", "PEER", "CLIENT", "ID", "ERROR"}}
	for _, m := range all {
		tone, known := tones[m.State]
		if !known {
			tone = output.Bad
		}
		size := ""
		if m.Bytes > 0 {
			size = fmt.Sprintf("%d kB", m.Bytes/1000)
		}
		rows.Add(output.C(m.Name), output.Toned(m.State, tone), output.C(size), output.C(m.Peer), output.C(m.Client),
			output.C(m.ID), output.C(m.Error))
	}
	c.Table(rows)
	return nil
}

// etcdAdd is 'regent etcd add NAME'.
func etcdAdd(ctx context.Context, c *etcdCall) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	m, err := cluster.Add(ctx, c.argument)
	if err != nil {
		return err
	}
	return c.done(m, "member %s was added: start its node, with an empty directory and the same peers\n", m.Name)
}

// etcdRemove is 'regent etcd remove NAME'.
func etcdRemove(ctx context.Context, c *etcdCall) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	m, err := cluster.Remove(ctx, c.argument)
	if err != nil {
		return err
	}
	return c.done(m, "member %s was removed: its directory is of no use any more\n", m.Name)
}

// etcdSnapshot is 'regent etcd snapshot FILE'.
func etcdSnapshot(ctx context.Context, c *etcdCall) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	bytes, err := cluster.Snapshot(ctx, c.argument)
	if err != nil {
		return err
	}
	return c.done(map[string]any{"file": c.argument, "bytes": bytes}, "%s: %d bytes\n", c.argument, bytes)
}

// etcdRestore is 'regent etcd restore FILE'.
func etcdRestore(_ context.Context, c *etcdCall) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	var floor etcd.Floor
	err = cluster.Restore(c.argument, embedded.Restoration{
		Mark: fmt.Sprintf("raise-epochs=%d", c.raise),
		Add: func(held iter.Seq2[string, []byte], id string) (key, value string, err error) {
			floor, err = etcd.RaiseFloor(held, c.raise, id)
			return floor.Key, floor.Value, err
		},
	})
	if err != nil {
		return err
	}
	return c.done(map[string]any{
		"member": cluster.Name, "dir": cluster.Dir, "highestEpoch": floor.Highest, "epochFloor": floor.Epoch,
	}, "member %s in %s is restored. The snapshot shows epochs up to %d; the next one is at least %d.\n"+
		"Restore the other members of peers from the same file, with the same --raise-epochs; then start all nodes.\n",
		cluster.Name, cluster.Dir, floor.Highest, floor.Epoch+1)
}

// done prints what was done.
func (c *etcdCall) done(value any, format string, args ...any) error {
	if c.Format != output.Table {
		return c.Data(value)
	}
	c.Printf(format, args...)
	return nil
}
