package etcd

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// maxEpoch is beyond every epoch that can be reached by counting: fences refuse it.
const maxEpoch = 1 << 62

// Floor is the register of the epoch floor, as a restore of a snapshot writes it.
type Floor struct {
	Key, Value string
	Highest    uint64 // the highest epoch that the snapshot shows
	Epoch      uint64 // the new floor: no claim gets an epoch up to this one
}

// RaiseFloor returns the epoch floor that must be written to what a snapshot holds, before a cluster is made of it. It
// is above the highest epoch that the keys below [DefaultPrefix] show, by as many epochs as may have been given out
// since the snapshot was made. No claim then gets one of those again.
//
// The same keys and the same ID give the same floor: every member of the cluster gets it by itself.
func RaiseFloor(held iter.Seq2[string, []byte], by uint64, id string) (Floor, error) {
	f := Floor{Key: DefaultPrefix + driver.FloorRegister}
	for key, value := range held {
		name, ours := strings.CutPrefix(key, DefaultPrefix)
		if !ours || strings.HasPrefix(name, driver.Reserved) && name != driver.FloorRegister {
			continue
		}
		l, err := decode(name, &mvccpb.KeyValue{Value: value})
		if err != nil {
			continue // it shows no epoch, now or before
		}
		f.Highest = max(f.Highest, l.Epoch)
	}

	f.Epoch = f.Highest + by
	if f.Epoch < f.Highest || f.Epoch >= maxEpoch {
		return Floor{}, fmt.Errorf("the snapshot shows epoch %d: %d epochs more are beyond what fences accept, which "+
			"is below 2^62", f.Highest, by)
	}

	// A stamp that no store makes: those have an ID and a number.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, f.Epoch))
	stamp := stampOfTerm(f.Epoch, "") + hex.EncodeToString(sum[:])
	f.Value = encode(stamp, driver.Record{
		Name: driver.FloorRegister, Epoch: f.Epoch, Nonce: binary.BigEndian.Uint64(sum[:]),
	})
	return f, nil
}
