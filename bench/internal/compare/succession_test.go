package compare

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestUnwoken has waiters of a succession that miss that nobody leads.
func TestUnwoken(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		peer   bool
		missed int // by how many waiters in a row
		good   bool
	}{
		"a_peer's_round_is_repeated":         {true, 1, true},
		"not_for_ever":                       {true, 100, false},
		"and_that_of_Regent_is_not_repeated": {false, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				holds = "mkdir lock && echo leads; trap 'rmdir lock; exit' TERM; while :; do sleep 0.02; done"
				waits = "echo waits; until mkdir lock 2>/dev/null; do sleep 0.02; done; rmdir lock; " + holds
				never = "echo waits; exec sleep 1000"
			)
			started := 0
			b := processKind{name: "x", waits: "waits", leads: "leads", byLease: c.peer,
				command: func(string) *exec.Cmd {
					started++
					script := waits

					if started%2 == 0 && started/2 <= c.missed { // the next one replaces it
						script = never
					}
					if started == 1 {
						script = holds
					}

					return exec.Command("sh", "-c", script)
				}}
			g, err := newSuccession(b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}

			defer func() { g.close() }()

			g.most = 2 * time.Second
			_, err = g.succeed(t.Context(), syscall.SIGTERM)
			if good := err == nil; good != c.good {
				t.Errorf("%d waiters missed it: %v", g.unwoken, err)
			}
		})
	}
}
