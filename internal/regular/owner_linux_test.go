package regular

import "testing"

func TestStranger(t *testing.T) {
	for _, c := range []struct {
		owner, self int
		want        string
	}{{0, 0, ""}, {0, 1000, ""}, {1000, 1000, ""}, {1001, 1000, "user 1001"}, {1001, 0, "user 1001"}} {
		if got := stranger(c.owner, c.self); got != c.want {
			t.Errorf("owner %d for %d: %q", c.owner, c.self, got)
		}
	}
}
