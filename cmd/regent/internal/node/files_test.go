package node_test

import (
	"bytes"
	"context"
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
	open := func(store driver.Store) func(context.Context) (driver.Store, error) {
		return func(context.Context) (driver.Store, error) { return store, nil }
	}

	t.Run("a_node_whose_name_leads_out_of_it_is_refused", func(t *testing.T) {
		for _, id := range []string{"../../x", "..", ".", "a/b", `a\b`, "/x", "a/../b", "x/"} {
			dir := filepath.Join(t.TempDir(), "data", "deeper")
			_, err := node.New(node.Options{Config: regent.Cluster(), Election: "seat", ID: id, Log: slog.New(slog.DiscardHandler),
				Open: open(memstore.New()), Coordination: node.Coordination{Worker: true, DataDir: dir}})
			if err == nil || !strings.Contains(err.Error(), "must be a single name") {
				t.Errorf("%q: %v", id, err)
			}
			if made, _ := filepath.Glob(filepath.Join(dir, "..", "..", "x")); len(made) > 0 {
				t.Errorf("%q: made %s", id, made)
			}
		}
	})

	t.Run("an_epoch_file_that_no_election_can_have_reached_is_an_error_in_the_log_and_no_storm_of_terms", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a", "epoch"), []byte("2305843009213693952\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		virtual.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			a, stop := start(t, "a", open(memstore.New()), func(o *node.Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
				o.Coordination = node.Coordination{Worker: true, DataDir: dir}
			})
			time.Sleep(5 * time.Second)
			if n := a.Member.Stats().Transitions; n != 1 || a.Health().Role != node.Leader {
				t.Errorf("%d terms, %s", n, a.Health().Role)
			}
			stop()
			if !strings.Contains(log.String(), "epoch file of this worker is damaged") || !strings.Contains(log.String(), "holds=2305843009213693952") {
				t.Errorf("log: %s", log.String())
			}
		})
	})
}
