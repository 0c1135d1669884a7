//go:build linux

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func init() { roles["member"] = memberRole }

// memberRole is a member in a process of its own: args are path, ID, whether it uses the store's notifications, and how
// many seats it holds. With 0 it campaigns for one, as ordered.
func memberRole(orders *bufio.Scanner, args []string) error {
	store, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}

	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}

	joined := make(chan struct{}, 1)
	m := &regent.Member{Store: store, ID: args[1], OnEvent: func(e regent.Event) {
		if e.Kind == regent.EventMemberJoined {
			joined <- struct{}{}
		}
	}}

	if args[2] == "polls" {
		m.Store = struct {
			driver.Store
			driver.Batcher
			driver.Witness
		}{store, store, store}
	}

	if n > 0 {
		return holdMany(orders, m, n, joined)
	}

	// A seat of its own keeps the member running while it does not campaign.
	go m.Run(background, regent.Duty{Election: "seat/of/" + m.ID})
	<-joined
	release, released := func() {}, make(chan struct{}, 1)
	released <- struct{}{}

	for orders.Scan() {
		switch orders.Text() {
		case "campaign":
			ctx, cancel := context.WithCancel(background)
			release = cancel
			<-released
			go func() {
				if err := m.Lead(ctx, "seat/one", sayLeads); !errors.Is(err, context.Canceled) {
					fmt.Println("error:", err)
				}
				released <- struct{}{}
			}()

			go sayWhoLeads(ctx, m, "seat/one")
		case "release":
			fmt.Println("releases", monotonic())
			release()
		case "cpu":
			fmt.Println("cpu", int64(cpuTime()))
		}
	}

	return nil
}

func sayLeads(ctx context.Context, _ regent.Term) error {
	fmt.Println("leads", monotonic())
	<-ctx.Done()
	return context.Cause(ctx)
}

func sayWhoLeads(ctx context.Context, m *regent.Member, election string) {
	for v := range m.Watch(ctx, election) {
		if v.Leader != "" {
			if v.Leader != m.ID {
				fmt.Println("follows")
			}
			return
		}
	}
}

// holdMany says how many seats it holds whenever that has changed.
func holdMany(orders *bufio.Scanner, m *regent.Member, n int, joined <-chan struct{}) error {
	duties := manySeats(n)
	go m.Run(background, duties...)
	<-joined
	go func() {
		sayWhoLeads(background, m, duties[n-1].Election)
		for last := uint64(0); ; time.Sleep(time.Millisecond) {
			if now := m.Stats().Transitions; now != last {
				fmt.Println("holds", now, monotonic())
				last = now
			}
		}
	}()

	orders.Scan()
	return nil
}

func startMember(b *testing.B, path, id, push string, seats int) *child {
	b.Helper()
	return start(b, nil, "member", path, id, push, strconv.Itoa(seats))
}

func (c *child) order(t testing.TB, order string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, order); err != nil {
		t.Fatal(err)
	}
}

// says reads the next line, which must begin with that word, and returns the numbers after it.
func (c *child) says(t testing.TB, word string) (numbers []int64) {
	t.Helper()
	words := strings.Fields(c.line(t))
	if len(words) == 0 || words[0] != word {
		t.Fatalf("it says %q, not %q", words, word)
	}

	for _, w := range words[1:] {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}

	return numbers
}

func (c *child) kill(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// awaitExit waits for a killed child.
func (c *child) awaitExit() {
	_ = c.cmd.Wait()
	c.done = true
}
