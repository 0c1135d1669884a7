package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// screen is what the demo shows: lines as they come, and on a terminal below them the state of the cluster.
type screen struct {
	opts  Options
	begin time.Time
	said  *said

	mu    sync.Mutex
	block []string // what stands below the lines
	over  bool
}

func newScreen(opts Options) *screen { return &screen{opts: opts, begin: time.Now(), said: newSaid()} }

// say adds a line. An empty one has no time.
func (s *screen) say(format string, args ...any) { s.add(fmt.Sprintf(format, args...), "") }

// report adds a line with what was measured, which stands out.
func (s *screen) report(format string, args ...any) { s.add(fmt.Sprintf(format, args...), "\x1b[32m") }

// event adds what a process has logged, in pale: on a terminal alone, since the page has its own log of events.
func (s *screen) event(text string) {
	if !s.opts.Terminal {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.write(s.timed("  "+text), "\x1b[2m")
	}
}

// add adds a line in a colour.
func (s *screen) add(text, colour string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		text = s.timed(text)
	}
	s.said.add(text)
	s.write(text, colour)
}

// timed returns a line with the time before it.
func (s *screen) timed(text string) string {
	return fmt.Sprintf("%7.3f  %s", time.Since(s.begin).Seconds(), text)
}

// write writes a line in a colour above the block.
func (s *screen) write(text, colour string) {
	s.erase()
	for _, line := range s.wrap(text) {
		if colour != "" && s.opts.Colour {
			line = colour + line + "\x1b[0m"
		}
		fmt.Fprintln(s.opts.Out, line)
	}
	s.draw()
}

// indent is how wide the time before a line is.
const indent = 9

// wrap breaks a line where the terminal ends.
func (s *screen) wrap(text string) []string {
	if !s.opts.Terminal {
		return []string{text}
	}
	return wrapped(text, columns(s.opts.Out))
}

// wrapped breaks a line between words, so that no part is wider than width. It keeps a line whole if the width is not
// known, or very small.
func wrapped(text string, width int) (lines []string) {
	for width > 4*indent && utf8.RuneCountInString(text) > width {
		at := strings.LastIndexByte(string([]rune(text)[:width+1]), ' ')
		if at <= indent {
			break
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + strings.TrimLeft(text[at:], " ")
	}

	return append(lines, text)
}

// show replaces the block below the lines.
func (s *screen) show(block []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.block = block
	s.draw()
}

// end removes the block.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.block = nil
	s.over = true
}

// erase moves the cursor to where the block begins, and clears what follows.
func (s *screen) erase() {
	if len(s.block) > 0 && s.opts.Terminal {
		fmt.Fprintf(s.opts.Out, "\x1b[%dA\r\x1b[J", len(s.block))
	}
}

// draw writes the block. A line that is longer than the terminal is wide would take two, and erase would not know.
func (s *screen) draw() {
	if !s.opts.Terminal || s.over {
		return
	}
	width := columns(s.opts.Out)
	for _, line := range s.block {
		if plain := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(line); width > 0 &&
			utf8.RuneCountInString(plain) > width {
			line = string([]rune(plain)[:width])
		}
		_, _ = io.WriteString(s.opts.Out, line+"\n")
	}
}

// bold returns text that stands out, if the terminal has colours.
func (s *screen) bold(text string) string {
	if !s.opts.Colour {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// refreshInterval is how often the block is drawn again.
const refreshInterval = 250 * time.Millisecond

// refresh draws the block until ctx ends.
func (s *screen) refresh(ctx context.Context, c *cluster) {
	if !s.opts.Terminal {
		return
	}
	for ctx.Err() == nil {
		s.show(s.view(ctx, c))
		select {
		case <-time.After(refreshInterval):
		case <-ctx.Done():
		}
	}
}

// view returns the block: who leads, what is left of the lease, the processes and the keys.
func (s *screen) view(ctx context.Context, c *cluster) []string {
	c.mu.Lock()
	leader, epoch := c.leader, c.epoch
	var states []string
	var at *process
	for _, p := range c.nodes {
		state := p.name + " " + p.state
		if p.name == leader {
			state = s.bold(state)
			at = p
		}
		states = append(states, state)
	}
	c.mu.Unlock()

	first := s.bold("nobody leads")
	if at != nil {
		short, cancel := context.WithTimeout(ctx, refreshInterval)
		status, err := c.at(at).LocalStatus(short)
		cancel()
		left := "does not answer"
		if err == nil {
			left = "lease " + bar(float64(status.LeaseRemainingMs)/fullLease) +
				fmt.Sprintf(" %.1f s", float64(status.LeaseRemainingMs)/1000)
		}
		first = s.bold(fmt.Sprintf("%s leads, epoch %d", leader, epoch)) + "   " + left
	}

	keys := []string{}
	for _, f := range c.faults() {
		keys = append(keys, fmt.Sprintf("%c %s", f.key, f.name))
	}
	return []string{
		"", "  " + first, "  " + strings.Join(states, "   "), "  " + c.page(),
		"  " + strings.Join(append(keys, "q quit"), "  "),
	}
}

// fullLease is about how long a leader of profile cluster may lead after a heartbeat, in milliseconds.
const fullLease = 5000

// bar draws a share of 1.
func bar(share float64) string {
	const width = 20
	full := min(max(int(share*width+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
