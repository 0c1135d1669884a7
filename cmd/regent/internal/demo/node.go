package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/regentd/regent"
	"github.com/regentd/regent/store/sqlite"
)

// NodeCommand is the command that the demo runs its own binary with.
const NodeCommand = "demo-node"

// RunNode is one node of the demo: it campaigns for a seat in the database args[0] under the name args[1] until in ends, and writes its
// events as lines.
func RunNode(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%s takes a database and a name, got %q", NodeCommand, args)
	}
	store, err := sqlite.Open(ctx, args[0], sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	lines := json.NewEncoder(out)
	m := &regent.Member{Store: store, ID: args[1], OnEvent: func(e regent.Event) {
		_ = lines.Encode(e) // whoever reads has gone, then
	}}
	err = m.Lead(ctx, "demo", func(ctx context.Context, _ regent.Term) error {
		<-ctx.Done()
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
