package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
)

// Snapshot writes the whole store to a new file, from one member that answers, and returns the size of the file.
func (c *Config) Snapshot(ctx context.Context, path string) (bytes int64, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("file %s: must not be there yet", path)
	}
	client, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()

	from, err := client.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("no member of the cluster answers: %w", err)
	}
	defer from.Close()

	// A snapshot that was cut off must not be taken for a whole one.
	part := path + ".part"
	to, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	bytes, err = io.Copy(to, from)
	err = errors.Join(err, to.Sync(), to.Close())
	if err != nil {
		_ = os.Remove(part)
		return 0, fmt.Errorf("write %s: %w", part, err)
	}
	return bytes, os.Rename(part, path)
}

// Restoration says what a restore adds to what a snapshot holds. The zero value adds nothing.
type Restoration struct {
	// Add returns a key and its value. It gets all that the snapshot holds, and an ID of that which is the same on all
	// hosts: it must return the same for the same.
	Add func(held iter.Seq2[string, []byte], id string) (key, value string, err error)
	// Mark tells restorations with different additions apart. Members that differ in it do not form a cluster.
	Mark string
}

// Restore makes the directory of this member what a snapshot holds. It must be called with the same file and the same
// restoration for each member of the address, none of which may run. Together they are a new cluster, which no former
// member can join.
func (c *Config) Restore(path string, r Restoration) error {
	if err := c.MustRun(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(c.Dir); err == nil && len(entries) > 0 {
		return driver.Refused(fmt.Errorf("directory %s: must be empty: stop this node, and move what is there away",
			c.Dir))
	}
	token, err := digest(path, r.Mark)
	if err != nil {
		return err
	}

	own, _ := c.own()
	cluster := make([]string, len(c.Peers))
	for i, p := range c.Peers {
		cluster[i] = p.Name + "=" + c.url(p.Peer)
	}
	// Beside the directory, so that one which was cut off is not taken for a whole one.
	part := filepath.Clean(c.Dir) + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: path, Name: c.Name, OutputDataDir: part, PeerURLs: []string{c.url(own.Peer)},
		InitialCluster: strings.Join(cluster, ","), InitialClusterToken: token,
	})
	if err != nil && (strings.Contains(err.Error(), "sha256") || strings.Contains(err.Error(), "missing hash")) {
		err = errors.New("the file is damaged, or no whole snapshot: its checksum does not fit")
	}
	if err == nil && r.Add != nil {
		err = add(datadir.ToBackendFileName(part), token, r)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore %s: %w", path, err), os.RemoveAll(part))
	}
	if err := os.Remove(c.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(part, c.Dir)
}

// add writes what a restoration adds to the database of a member that does not run. It is one revision more, the same
// on all hosts.
func add(path, id string, r Restoration) error {
	file := backend.NewDefaultBackend(zap.NewNop(), path)
	defer file.Close()
	kv := mvcc.NewStore(zap.NewNop(), file, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer kv.Close()

	var failed error
	key, value, err := r.Add(func(yield func(string, []byte) bool) { failed = all(kv, yield) }, id)
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	kv.Put([]byte(key), []byte(value), lease.NoLease)
	kv.Commit()
	return nil
}

// page is how many keys are read at once.
const page = 500

// all yields the keys of a database with their values.
func all(kv mvcc.KV, yield func(string, []byte) bool) error {
	for from := []byte{0}; ; {
		found, err := kv.Range(context.Background(), from, []byte{}, mvcc.RangeOptions{Limit: page})
		if err != nil {
			return err
		}
		for _, one := range found.KVs {
			if !yield(string(one.Key), one.Value) {
				return nil
			}
		}
		if len(found.KVs) < page {
			return nil
		}
		from = append(found.KVs[page-1].Key, 0)
	}
}

// digest returns what names the cluster that is made of a snapshot: the same on all hosts, and other than that of the
// cluster which the snapshot is of.
func digest(path, mark string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	h.Write([]byte(mark))
	return token + "-" + hex.EncodeToString(h.Sum(nil)[:16]), nil
}
