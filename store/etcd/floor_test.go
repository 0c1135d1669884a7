package etcd

import (
	"maps"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// snapshotOf returns keys and values with records of these epochs, by name.
func snapshotOf(epochs map[string]uint64) map[string][]byte {
	held := map[string][]byte{}
	for name, epoch := range epochs {
		l := driver.Record{Name: name, Epoch: epoch}
		held[DefaultPrefix+name] = []byte(encode(stampOfTerm(epoch, "A1")+"x.1", l))
	}
	return held
}

func TestRaiseFloor(t *testing.T) {
	for name, c := range map[string]struct {
		epochs  map[string]uint64
		highest uint64
	}{
		"an_empty_store":         {nil, 0},
		"the_highest_of_all":     {map[string]uint64{"a": 3, "b/c": 70, "d": 7}, 70},
		"a_floor_that_is_higher": {map[string]uint64{"a": 3, driver.FloorRegister: 90}, 90},
		"a_member_register_counts_incarnations": {map[string]uint64{
			"a": 3, driver.MemberRegister("x"): 500}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			held := snapshotOf(c.epochs)
			held["/other/a"] = held[DefaultPrefix+"b/c"]
			held[DefaultPrefix+"foreign"] = []byte("not of Regent")
			f, err := RaiseFloor(maps.All(held), 1000, "id")
			if err != nil || f.Highest != c.highest || f.Epoch != c.highest+1000 {
				t.Fatalf("%+v, %v", f, err)
			}
			l, err := decode(driver.FloorRegister, &mvccpb.KeyValue{Value: []byte(f.Value), ModRevision: 7})
			if err != nil || l.Epoch != f.Epoch || !l.Vacant() || f.Key != "/regent/regent/floor" {
				t.Errorf("%s holds %+v, %v", f.Key, l, err)
			}
			if again, _ := RaiseFloor(maps.All(held), 1000, "id"); again != f {
				t.Errorf("%+v, and then %+v: members would differ", f, again)
			}
			if other, _ := RaiseFloor(maps.All(held), 1000, "another"); other.Value == f.Value {
				t.Error("the stamps of two restores are the same")
			}
		})
	}

	held := snapshotOf(map[string]uint64{"a": maxEpoch - 10})
	if _, err := RaiseFloor(maps.All(held), 10, "id"); err == nil || !strings.Contains(err.Error(), "below 2^62") {
		t.Errorf("beyond what fences accept: %v", err)
	}
}
