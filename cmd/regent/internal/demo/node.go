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

// NodeCommand is the hidden command of a node of the demo.
const NodeCommand = "demo-node"

// RunNode runs a node of the demo until in ends: it campaigns on the database args[0], as member args[1]. It writes its
// events to out, one a line.
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
		_ = lines.Encode(e) // it fails only if the demo has ended
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
