package etcd

import (
	"bytes"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A value is a record as JSON, with a stamp in front:
//
//	{"rev":"7/QMZ2…/1b8cx…","epoch":7,…}
//
// The stamp is the epoch, the holder's incarnation and a number that was never used. It serves two purposes, because
// etcd can compare how a value begins:
//
//   - A swap compares mod_revision and the stamp. etcd never uses a mod_revision twice, but a cluster that was restored
//     from a snapshot does: it counts on from the snapshot. A swap that was prepared before could then fit a record
//     that it has never seen. No stamp comes twice.
//   - [Fence] compares epoch and incarnation, which stay the same while a term renews its lease or saves a checkpoint.
//
// The revision of a register is its mod_revision and its stamp: 4711/7/QMZ2…/1b8cx….

// stampField is how every value begins.
const stampField = `{"rev":"`

// newStamp returns the stamp of a record that is about to be written.
func (s *Store) newStamp(l driver.Record) string {
	b := []byte(stampOfTerm(l.Epoch, l.Holder.Incarnation))
	b = strconv.AppendUint(b, s.id, 36)
	b = append(b, '.')
	b = strconv.AppendUint(b, s.stamps.Add(1), 36)
	return string(b)
}

// stampOfTerm returns how the stamps of a term begin. An incarnation is letters and digits, unless a program writes
// records of its own: whatever JSON or the stamp itself would need quoted is escaped.
func stampOfTerm(epoch uint64, incarnation string) string {
	return strconv.FormatUint(epoch, 10) + "/" + url.PathEscape(incarnation) + "/"
}

// encode returns a record as it is stored.
func encode(stamp string, l driver.Record) string {
	b := make([]byte, 0, 512+len(l.Data)*4/3)
	b = append(b, stampField...)
	b = append(b, stamp...)
	b = append(b, '"')
	at := len(b)
	b = l.AppendJSON(b)
	b[at] = ',' // instead of the brace
	return string(b)
}

var errForeign = errors.New("it is not a record of Regent; restore the key, or delete it if nobody leads")

// decode returns the record that a key holds.
func decode(name string, kv *mvccpb.KeyValue) (driver.Record, error) {
	rest, ok := bytes.CutPrefix(kv.Value, []byte(stampField))
	stamp, rest, quoted := bytes.Cut(rest, []byte(`",`))
	if !ok || !quoted || !validStamp(string(stamp)) {
		return driver.Record{}, errForeign
	}

	record := make([]byte, 0, len(rest)+1)
	record = append(record, '{')
	record = append(record, rest...)
	return driver.ParseRecord(name, revision(kv.ModRevision, string(stamp)), record)
}

// revision returns the revision of a register.
func revision(mod int64, stamp string) string { return strconv.FormatInt(mod, 10) + "/" + stamp }

// validStamp reports whether text can be a stamp.
func validStamp(text string) bool {
	return strings.Count(text, "/") == 2 && !strings.ContainsAny(text, `"\`)
}

// parseRevision splits a revision. One that this package has not made fits no register.
func parseRevision(rev string) (mod int64, stamp string) {
	text, stamp, _ := strings.Cut(rev, "/")
	mod, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !validStamp(stamp) {
		return -1, "none"
	}
	return mod, stamp
}

// unchanged returns the conditions under which a register still has a revision.
func unchanged(key, rev string) []clientv3.Cmp {
	if rev == "" {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
	}
	return revised(key, rev)
}

// revised returns the conditions under which a register was written and has a revision.
func revised(key, rev string) []clientv3.Cmp {
	mod, stamp := parseRevision(rev)
	return append(begins(key, stampField+stamp+`",`), clientv3.Compare(clientv3.ModRevision(key), "=", mod))
}

// begins returns the conditions under which the value of a key begins with a text and goes on. They do not hold if
// there is no such key.
func begins(key, text string) []clientv3.Cmp {
	last := len(text) - 1
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", text),
		clientv3.Compare(clientv3.Value(key), "<", text[:last]+string(text[last]+1)),
	}
}
