package compare

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

// node is a process, and the lines that it and its descendants write to both outputs.
type node struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan line // closed when the process and its descendants have ended
	kept []line    // read, and not asked for yet
}

// line is a line of output, and when it was read.
type line struct {
	at   time.Time
	text string
}

// startNode starts a process.
func startNode(cmd *exec.Cmd) (*node, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()

	n := &node{cmd: cmd, said: make(chan line, 1024)}
	cmd.Stdout = w
	cmd.Stderr = w

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
			default: // nobody reads any more
			}
		}
	}()

	return n, nil
}

// await waits for a line that contains words, and returns it.
func (n *node) await(words string) (line, error) { return n.awaitIn(waitLimit, words) }

// awaitIn is await with a limit.
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
				return line{}, fmt.Errorf("the process ended and did not write %q, but %v", words, n.kept)
			}
			if strings.Contains(l.text, words) {
				return l, nil
			}

			n.kept = append(n.kept, l)
		case <-limit.C:
			return line{}, fmt.Errorf("the process has not written %q after %v, but %v", words, most, n.kept)
		}
	}
}

// gone waits until the process and its descendants have ended. It kills the process if that takes too long.
func (n *node) gone() error {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()

	for open := true; open; {
		select {
		case _, open = <-n.said:
		case <-limit.C:
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
			return fmt.Errorf("a process did not end in %v, and was killed", waitLimit)
		}
	}

	_ = n.in.Close()
	_ = n.cmd.Wait() // it ended by a signal
	return nil
}

// stop ends the process with TERM.
func (n *node) stop() error {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	return n.gone()
}
