package node_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

func TestDataDir(t *testing.T) {
	t.Run("a_node_whose_name_is_a_path_is_refused", func(t *testing.T) {
		for _, id := range []string{"../../x", "..", ".", "a/b", `a\b`, "/x", "a/../b", "x/"} {
			dir := filepath.Join(t.TempDir(), "data", "deeper")
			opts := options(id, opens(memstore.New()))
			opts.Coordination = node.Coordination{Worker: true, DataDir: dir}
			_, err := node.New(opts)
			if err == nil || !strings.Contains(err.Error(), "must be a single name") {
				t.Errorf("%q: %v", id, err)
			}
			if made, _ := filepath.Glob(filepath.Join(dir, "..", "..", "x")); len(made) > 0 {
				t.Errorf("%q: made %s", id, made)
			}
		}
	})

	t.Run("an_epoch_file_that_cannot_be_written_is_in_the_checks_until_it_can", func(t *testing.T) {
		dir := t.TempDir()
		virtual.Test(t, func(t *testing.T) {
			a, _ := start(t, "a", opens(memstore.New()), func(o *node.Options) {
				o.Coordination = node.Coordination{Worker: true, DataDir: dir}
			})
			if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "away")); err != nil {
				t.Fatal(err)
			}

			time.Sleep(25 * time.Second)
			h := a.Health()
			if h.Role != node.Leader || !strings.HasPrefix(h.Checks["worker"], "refuses tasks: ") {
				t.Errorf("%s %v", h.Role, h.Checks)
			}

			if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if check := a.Health().Checks["worker"]; check != "ok" {
				t.Error(check)
			}
			if highest, err := a.Worker.Fence.Highest(); err != nil || highest.Epoch != 1 {
				t.Errorf("%v %v", highest, err)
			}
		})
	})

	t.Run("an_epoch_file_that_is_too_far_ahead_is_logged_and_ends_no_terms", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a", "epoch"), []byte("2305843009213693952\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		virtual.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			a, stop := start(t, "a", opens(memstore.New()), func(o *node.Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
				o.Coordination = node.Coordination{Worker: true, DataDir: dir}
			})
			time.Sleep(5 * time.Second)
			if n := a.Member.Stats().Transitions; n != 1 || a.Health().Role != node.Leader {
				t.Errorf("%d terms, %s", n, a.Health().Role)
			}
			stop()
			for _, text := range []string{"epoch file of this worker is damaged", "holds=2305843009213693952"} {
				if !strings.Contains(log.String(), text) {
					t.Errorf("log: %s", log.String())
				}
			}
		})
	})
}

// TestFence checks the fence of a node's worker.
func TestFence(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		write := func(l driver.Record) driver.Record {
			t.Helper()
			got, err := store.Swap(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		held := write(driver.Record{
			Name:     "seat",
			Holder:   driver.Identity{ID: "x", Incarnation: "X"},
			Epoch:    6,
			Nonce:    1,
			Duration: time.Hour,
			Since:    time.Now(),
		})
		n, stop := start(t, "w", opens(store.Client("w", memstore.Faults{})), func(o *node.Options) {
			o.Config.Ineligible = true
			o.Coordination.Worker = true
			o.Coordination.DataDir = t.TempDir()
		})
		defer stop()
		time.Sleep(2 * time.Second)

		// Tasks of former leaders are refused before the new one has sent any.
		if h, err := n.Worker.Fence.Highest(); h != (regent.Token{Epoch: 6, Term: "X"}) || err != nil {
			t.Errorf("the worker has learned %v, %v", h, err)
		}

		confirm := func(epoch uint64, term string, want string) {
			t.Helper()
			err := n.Worker.Fence.Confirm(regent.Token{Epoch: epoch, Term: term})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("epoch %d of term %q: %v", epoch, term, err)
			}
		}
		confirm(7, "X", "no epoch beyond 6")
		confirm(6, "X", "")
		confirm(6, "", "")
		confirm(6, "Y", "epoch 6 as that of term X, held by x, and not of term Y")
		confirm(5, "Y", "") // there may have been such a term

		held.Holder = driver.Identity{}
		write(held)
		confirm(6, "Y", "") // the record has no term any more
	})
}
