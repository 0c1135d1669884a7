package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a process, and what it says: it and whatever it has started, on both of its outputs.
type node struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan line // closed when nothing of it lives any more
	kept []line    // that nobody has asked for yet
}

// line is one that was said, and when it arrived here.
type line struct {
	at   time.Time
	text string
}

func startNode(cmd *exec.Cmd) (*node, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	n := &node{cmd: cmd, said: make(chan line, 1024)}
	cmd.Stdout, cmd.Stderr = w, w
	if n.in, err = cmd.StdinPipe(); err != nil {
		r.Close()
		return nil, err
	}
	dieWithUs(cmd, syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	go func() {
		defer close(n.said)
		defer r.Close()
		for lines := bufio.NewScanner(r); lines.Scan(); {
			l := line{time.Now(), lines.Text()}
			select {
			case n.said <- l:
			default: // nobody listens any more
			}
		}
	}()
	return n, nil
}

// await waits for a line that contains words, and returns when it arrived.
func (n *node) await(words string) (line, error) { return n.awaitIn(patience, words) }

// awaitIn waits no longer than the limit.
func (n *node) awaitIn(most time.Duration, words string) (line, error) {
	if i := slices.IndexFunc(n.kept, func(l line) bool { return strings.Contains(l.text, words) }); i >= 0 {
		l := n.kept[i]
		n.kept = slices.Delete(n.kept, i, i+1)
		return l, nil
	}
	limit := time.NewTimer(most)
	defer limit.Stop()
	for {
		select {
		case l, ok := <-n.said:
			if !ok {
				return line{}, fmt.Errorf("the process ended and did not say %q, but %v", words, n.kept)
			}
			if strings.Contains(l.text, words) {
				return l, nil
			}
			n.kept = append(n.kept, l)
		case <-limit.C:
			return line{}, fmt.Errorf("the process does not say %q after %v, but %v", words, most, n.kept)
		}
	}
}

// gone waits until the process and all that it has started have ended, and kills it if that takes too long.
func (n *node) gone() error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for open := true; open; {
		select {
		case _, open = <-n.said:
		case <-limit.C:
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
			return fmt.Errorf("a process did not end in %v, and was killed", patience)
		}
	}
	_ = n.in.Close()
	_ = n.cmd.Wait() // how it ended is known: by a signal
	return nil
}

// stop ends the process gently.
func (n *node) stop() error {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	return n.gone()
}
