package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations and labels of a Lease.
const (
	// recordKey is the annotation that holds the record: what a Lease has no field for, and the name of the register.
	recordKey = "regent.dev/record"
	// revKey is the annotation that holds the number of the last write, which is never used twice. It is apart from the
	// record so that a patch can compare it.
	revKey = "regent.dev/rev"
	// prefixKey and kindKey are labels, to list and to watch by.
	prefixKey = "regent.dev/prefix"
	kindKey   = "regent.dev/kind"
)

const (
	kindMember   = "member"
	kindElection = "election"
)

// note is the content of the annotation.
type note struct {
	Name    string          `json:"name"`
	Prefix  string          `json:"prefix,omitempty"`
	Renewed int64           `json:"renewed"` // renewTime as it was written, in microseconds
	Record  json.RawMessage `json:"record"`
}

// kindOf returns the label of a register.
func kindOf(name string) string {
	if strings.HasPrefix(name, driver.MemberPrefix) {
		return kindMember
	}
	return kindElection
}

// endless is the duration of a Lease whose holder is alive as long as another Lease is renewed. An elector of client-go
// must not take it over only because it does not change.
const endless = math.MaxInt32

// specOf returns the fields of a Lease that say what a record says. It was renewed at a time, in microseconds.
func specOf(l driver.Record, renewed int64) coordinationv1.LeaseSpec {
	holder := l.Holder.ID
	seconds := int32(min(max(1, (l.Duration+time.Second-1)/time.Second), endless))
	if l.Via != "" && !l.Vacant() {
		seconds = endless
	}
	transitions := int32(min(max(l.Epoch, 1)-1, math.MaxInt32))
	renewTime := metav1.NewMicroTime(time.UnixMicro(renewed).UTC())

	spec := coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions, RenewTime: &renewTime,
	}
	if y := l.Since.UTC().Year(); !l.Since.IsZero() && y > 0 && y < 10_000 {
		acquired := metav1.NewMicroTime(time.UnixMicro(l.Since.UnixMicro()).UTC())
		spec.AcquireTime = &acquired
	}
	return spec
}

// sameSpec reports whether a Lease has the fields that Regent has written, so nobody else has written it since.
func sameSpec(a, b coordinationv1.LeaseSpec) bool {
	return value(a.HolderIdentity) == value(b.HolderIdentity) &&
		value(a.LeaseDurationSeconds) == value(b.LeaseDurationSeconds) &&
		value(a.LeaseTransitions) == value(b.LeaseTransitions) &&
		micros(a.AcquireTime) == micros(b.AcquireTime) && micros(a.RenewTime) == micros(b.RenewTime)
}

// value returns what a pointer points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// micros returns a time in microseconds, or 0.
func micros(t *metav1.MicroTime) int64 {
	if t == nil || t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// encode returns the annotation of a record.
func (a *address) encode(l driver.Record, renewed int64) (string, error) {
	b, err := json.Marshal(note{Name: l.Name, Prefix: a.prefix, Renewed: renewed, Record: l.AppendJSON(nil)})
	return string(b), err
}

// decode returns the record that a Lease holds. The name is set even if there is an error.
func (a *address) decode(lease *coordinationv1.Lease) (driver.Record, error) {
	name, plain := a.registerName(lease.Name)
	text, annotated := lease.Annotations[recordKey]
	if !annotated {
		if !plain {
			return driver.Record{Name: lease.Name}, fmt.Errorf("the Lease %s has lost its annotation %s, and with it "+
				"the name of its register: restore it, or delete the Lease if nobody leads", lease.Name, recordKey)
		}
		return foreign(driver.Record{Name: name}, lease), nil
	}

	var n note
	err := json.Unmarshal([]byte(text), &n)
	if err == nil && n.Name != "" {
		name = n.Name
	}
	if name == "" {
		name = lease.Name
	}
	switch {
	case err == nil && (n.Prefix != a.prefix || a.leaseName(n.Name) != lease.Name):
		err = fmt.Errorf("it is register %q of prefix %q", n.Name, n.Prefix)
	case err == nil && len(n.Record) == 0:
		err = errors.New("there is no record in it")
	}
	var l driver.Record
	if err == nil {
		l, err = driver.ParseRecord(name, "", n.Record)
	}
	if err != nil {
		return driver.Record{Name: name}, fmt.Errorf("annotation %s of Lease %s: %w; restore it, or delete the Lease "+
			"if nobody leads", recordKey, lease.Name, err)
	}

	if !sameSpec(lease.Spec, specOf(l, n.Renewed)) {
		return foreign(l, lease), nil
	}
	l.Rev = revisionOf(lease, l.Nonce).String()
	return l, nil
}

// foreign returns the record of a Lease that another program has written last, such as an elector of client-go. Only
// the fields of the Lease count. What they do not say is as Regent has left it: was.
//
// The record keeps itself alive, so whoever watches it waits until it has not changed for its duration. Its nonce
// changes with every renewal. Its epoch is above every one that Regent has written there.
func foreign(was driver.Record, lease *coordinationv1.Lease) driver.Record {
	spec := lease.Spec
	l := driver.Record{
		Name: was.Name, Data: was.Data, Past: was.Past, Paused: was.Paused,
		Epoch:    max(uint64(max(value(spec.LeaseTransitions), 0))+1, was.Epoch+1),
		Duration: time.Duration(max(value(spec.LeaseDurationSeconds), 1)) * time.Second,
	}
	if was.Epoch == math.MaxUint64 {
		l.Epoch = was.Epoch
	}
	if spec.AcquireTime != nil {
		l.Since = spec.AcquireTime.UTC()
	}

	holder := value(spec.HolderIdentity)
	if holder != "" {
		l.Holder = driver.Identity{ID: holder, Incarnation: fmt.Sprintf("lease-%s-%d-%d", lease.UID,
			value(spec.LeaseTransitions), micros(spec.AcquireTime))}
	}

	h := fnv.New64a()
	fmt.Fprintf(h, "%q %d %d %d", holder, micros(spec.RenewTime), micros(spec.AcquireTime),
		value(spec.LeaseTransitions))
	l.Nonce = h.Sum64()
	l.Rev = revisionOf(lease, l.Nonce).String()
	return l
}

// revision is the revision of a register, and what a write that replaces it has to know.
type revision struct {
	version string // resourceVersion
	uid     string
	stamp   string // of the write; empty if Regent has never written the Lease
	renewed int64  // renewTime, in microseconds
	nonce   uint64
	bare    string // which maps are missing: a for annotations, l for labels
}

func revisionOf(lease *coordinationv1.Lease, nonce uint64) revision {
	r := revision{
		version: lease.ResourceVersion, uid: string(lease.UID), stamp: lease.Annotations[revKey],
		renewed: micros(lease.Spec.RenewTime), nonce: nonce,
	}
	if lease.Annotations == nil {
		r.bare += "a"
	}
	if lease.Labels == nil {
		r.bare += "l"
	}
	return r
}

// String returns the revision as text.
func (r revision) String() string {
	return strings.Join([]string{r.version, r.uid, r.stamp, strconv.FormatInt(r.renewed, 36),
		strconv.FormatUint(r.nonce, 36), r.bare}, "/")
}

// parseRevision reads a revision. ok is false for a text that this package has not made, which fits no register.
func parseRevision(text string) (r revision, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 6 || parts[0] == "" {
		return revision{}, false
	}

	renewed, err := strconv.ParseInt(parts[3], 36, 64)
	nonce, wrong := strconv.ParseUint(parts[4], 36, 64)
	if err != nil || wrong != nil {
		return revision{}, false
	}
	return revision{version: parts[0], uid: parts[1], stamp: parts[2], renewed: renewed, nonce: nonce,
		bare: parts[5]}, true
}

// newStamp returns a number that was never used.
func (s *Store) newStamp() string {
	return strconv.FormatUint(s.id, 36) + "." + strconv.FormatUint(s.stamps.Add(1), 36)
}
