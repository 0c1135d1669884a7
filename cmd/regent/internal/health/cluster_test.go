package health

import (
	"slices"
	"testing"

	"github.com/regentd/regent"
)

func TestNoCoordinator(t *testing.T) {
	t.Run("lists_members_that_have_not_left_as_unknown", func(t *testing.T) {
		c := NoCoordinator([]regent.MemberView{
			{ID: "b", Incarnation: "1", Addr: "b:1"},
			{ID: "a", Incarnation: "2"},
			{ID: "left"},
		}, "the election is vacant")
		want := []string{"nobody checks the members: the election is vacant"}
		if c.Status != Critical || !slices.Equal(c.Reasons, want) {
			t.Errorf("got %+v", c)
		}
		if c.Counts.Unknown != 2 || c.Counts.Members != 2 || c.Members[0].ID != "a" {
			t.Errorf("got %+v", c)
		}
		if b := c.Members[1]; b.Status != Unknown || b.Addr != "b:1" || b.LastSeenMs != -1 || b.ProbeLatencyMs != -1 {
			t.Errorf("got %+v", b)
		}
	})

	t.Run("has_an_empty_list_without_members", func(t *testing.T) {
		if c := NoCoordinator(nil, ""); c.Reasons[0] != "nobody checks the members" || c.Members == nil {
			t.Errorf("got %+v", c)
		}
	})
}
