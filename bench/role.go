package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// roleCommand is the hidden command by which the bench runs itself as a process that plays a part in a figure.
const roleCommand = "role"

// role is what such a process does.
type role struct {
	Side  string
	Addr  string
	TTL   time.Duration
	Seats int // to hold at once; 0 to campaign for one as a candidate among several
}

// What a candidate says, one per line.
const (
	saysWaits = "waits"
	saysLeads = "leads"
)

func (r role) args() []string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has nothing that could fail
	}
	return []string{roleCommand, string(b)}
}

// playRole runs until ctx ends, which a SIGTERM sees to.
func playRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var r role
	if len(args) != 1 {
		return errors.New("this command is for the bench itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &r); err != nil {
		return err
	}
	all := sides(r.TTL)
	i := slices.IndexFunc(all, func(s side) bool { return s.name == r.Side })
	if i < 0 {
		return fmt.Errorf("there is no side %q", r.Side)
	}
	if r.Seats > 0 {
		return holdSeats(ctx, all[i], r, in, out)
	}
	c, err := all[i].open(ctx, r.Addr)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintln(out, saysWaits)
	return c.hold(ctx, election, func() { fmt.Fprintln(out, saysLeads) })
}
