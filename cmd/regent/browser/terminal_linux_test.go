package browser

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The size of the terminal that the cast is recorded on.
const (
	castColumns = 96
	castRows    = 24
)

// pty returns both sides of a new terminal.
func pty(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })

	var number, unlocked int32
	size := [4]uint16{castRows, castColumns}
	for request, arg := range map[uintptr]unsafe.Pointer{
		syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSPTLCK: unsafe.Pointer(&unlocked),
		syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(arg)); no != 0 {
			t.Fatal(no)
		}
	}

	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

// chunk is what a program wrote at once.
type chunk struct {
	at   time.Duration
	text string
}

// record runs a command on a terminal, and returns what it wrote and when. It ends the command with the key q after it
// has written a text, and a little later.
func record(t *testing.T, last string, args ...string) (chunks []chunk) {
	t.Helper()
	user, program := pty(t)
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	stuck := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	began := time.Now()
	all := ""
	buf := make([]byte, 64<<10)
	var end time.Duration // of the recording
	for {
		n, err := user.Read(buf)
		at := time.Since(began)
		if err != nil { // the program has ended
			break
		}
		all += string(buf[:n])
		if end == 0 && strings.Contains(all, last) {
			end = at + 3*time.Second
			time.AfterFunc(6*time.Second, func() { _, _ = user.Write([]byte("q")) })
		}
		if end == 0 || at < end {
			chunks = append(chunks, chunk{at, string(buf[:n])})
		}
	}
	if err := cmd.Wait(); err != nil || end == 0 {
		t.Fatalf("%v: %v; it did not write %q", args, err, last)
	}

	return chunks
}

// screen is a terminal that keeps all lines, also those that have scrolled away. It knows what the demo uses: lines,
// the cursor up, erasing, bold, pale and green.
type screen struct {
	lines [][]cell
	row   int
	col   int
	style byte // 0, 'b' for bold, 'p' for pale, or 'g' for green
	rest  string
}

type cell struct {
	char  rune
	style byte
}

// write takes in what a program wrote.
func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	text = s.rest + text
	s.rest = ""
	for text != "" {
		if text[0] == '\x1b' {
			end := strings.IndexFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
			if end < 0 { // the rest comes with the next chunk
				s.rest = text
				return
			}
			s.escape(t, text[:end+1])
			text = text[end+1:]
			continue
		}

		r, size := decode(text)
		if size == 0 {
			s.rest = text
			return
		}
		s.put(r)
		text = text[size:]
	}
}

func (s *screen) escape(t *testing.T, sequence string) {
	t.Helper()
	var n int
	switch {
	case sequence == "\x1b[J":
		s.lines = s.lines[:min(s.row, len(s.lines))]
	case sequence == "\x1b[1m":
		s.style = 'b'
	case sequence == "\x1b[2m":
		s.style = 'p'
	case sequence == "\x1b[32m":
		s.style = 'g'
	case sequence == "\x1b[0m":
		s.style = 0
	case strings.HasSuffix(sequence, "A"):
		if _, err := fmt.Sscanf(sequence, "\x1b[%dA", &n); err != nil {
			t.Fatalf("%q: %v", sequence, err)
		}
		s.row = max(s.row-n, 0)
	default:
		t.Fatalf("the terminal of the test does not know %q", sequence)
	}
}

func (s *screen) put(r rune) {
	switch r {
	case '\n':
		s.row++
		return
	case '\r':
		s.col = 0
		return
	}

	if s.col == castColumns {
		s.row++
		s.col = 0
	}
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	for len(s.lines[s.row]) <= s.col {
		s.lines[s.row] = append(s.lines[s.row], cell{' ', 0})
	}
	s.lines[s.row][s.col] = cell{r, s.style}
	s.col++
}
