package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestCandidateRestart runs a program of the library whose driver panics in the loop of the member.
func TestCandidateRestart(t *testing.T) {
	t.Run("C17_a_loop_that_panics_is_restarted_after_its_duty_has_stopped", func(t *testing.T) {
		t.Parallel()
		program, err := libprogram()
		if err != nil {
			t.Fatal(err)
		}

		bomb := filepath.Join(t.TempDir(), "bomb")
		setup, err := json.Marshal(map[string]string{"Store": startRedis(t).address(), "Node": "a", "Election": "seat",
			"Bomb": bomb})
		if err != nil {
			t.Fatal(err)
		}

		type claim struct {
			Epoch         uint64
			Before, After time.Duration
		}
		var mu sync.Mutex
		claims := map[uint64][]claim{}
		a := launch(t, "a", exec.Command(program, "member", string(setup)), func(line []byte) {
			var c claim
			if json.Unmarshal(line, &c) == nil {
				mu.Lock()
				defer mu.Unlock()
				claims[c.Epoch] = append(claims[c.Epoch], c)
			}
		})
		led := func(epoch uint64) {
			t.Helper()

			for limit := time.Now().Add(60 * time.Second); ; <-time.After(10 * time.Millisecond) {
				mu.Lock()
				n := len(claims[epoch])
				mu.Unlock()

				if n > 0 {
					return
				}
				if time.Now().After(limit) {
					t.Fatalf("it never led in epoch %d", epoch)
				}
			}
		}
		led(1)

		if err := os.WriteFile(bomb, nil, 0o600); err != nil {
			t.Fatal(err)
		}

		a.await(`msg=candidate:restarted.*the driver is broken`)
		led(2)
		a.stop()

		if got := a.said(`msg="lost leadership".*epoch=1 .*reason=panic`); len(got) != 1 {
			t.Errorf("it lost its first term by %q", a.said("lost leadership"))
		}

		mu.Lock()
		defer mu.Unlock()

		if last, next := claims[1][len(claims[1])-1], claims[2][0]; last.After > next.Before {
			t.Errorf("the duty of the dead loop ran until %v, the next one from %v", last.After, next.Before)
		}
	})
}
