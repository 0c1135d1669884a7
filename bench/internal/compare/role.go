package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// roleCommand is the hidden command of a process that takes part in a measurement.
const roleCommand = "role"

// role configures such a process.
type role struct {
	Side      string
	Addr      string
	TTL       time.Duration
	Elections int // to hold at once; 0 for a candidate of one election
}

// The lines that a candidate writes.
const (
	saysWaits = "waits"
	saysLeads = "leads"
)

func (r role) args() []string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot be: every field has a JSON form
	}
	return []string{roleCommand, string(b)}
}

// runRole runs such a process until ctx ends, at a SIGTERM. It is of one of the sides.
func runRole(ctx context.Context, args []string, in io.Reader, out io.Writer,
	of func(ttl time.Duration) []side) error {
	var r role
	if len(args) != 1 {
		return errors.New("this command is for the bench itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &r); err != nil {
		return err
	}

	all := of(r.TTL)
	i := slices.IndexFunc(all, func(s side) bool { return s.name == r.Side })
	if i < 0 {
		return fmt.Errorf("no side %q", r.Side)
	}
	if r.Elections > 0 {
		return holdElections(ctx, all[i], r, in, out)
	}

	c, err := all[i].open(ctx, r.Addr)
	if err != nil {
		return err
	}
	defer c.Close()

	fmt.Fprintln(out, saysWaits)
	return c.Hold(ctx, election, func() { fmt.Fprintln(out, saysLeads) })
}
