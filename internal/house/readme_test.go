//go:build unix

package house

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadmeRuns runs the commands of the README with real nodes, and compares what they print with what it shows.
// Directories and ports are others than the README's; a length of time in the output may be any.
func TestReadmeRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts nodes")
	}

	bin := buildRegent(t)
	steps := readmeSteps(t)
	oneOfThree(t, func() error {
		out, err := runScript(t, bin, steps)
		if err != nil {
			return err
		}
		for i, printed := range strings.Split(out, mark)[:len(steps)] {
			if got, want := anyTime(printed), anyTime(steps[i].shows); steps[i].shows != "" && got != want {
				return fmt.Errorf("the README shows\n%s\nafter\n%s\nwhich prints\n%s", want, steps[i].commands, got)
			}
		}
		return nil
	})
}

// oneOfThree fails if f fails three times: a busy machine may stop a leader for longer than its lease, but not each
// time.
func oneOfThree(t *testing.T, f func() error) {
	t.Helper()

	var err error
	for range 3 {
		if err = f(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error(err)
}

// TestDocumentedCommandsRun runs the curl and regent commands of other documents on a cluster of two nodes: each must
// succeed, and each HTTP answer must be a success.
func TestDocumentedCommandsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts nodes")
	}

	bin := buildRegent(t)
	script := readmeSteps(t)[0].commands // two nodes, the first of which leads
	script += "curl() { command curl --silent --show-error --fail --output /dev/null \"$@\"; }\n"
	script += `curl -X PUT localhost:7468/v1/polls/home -d ` +
		`'{"kind":"http","target":"https://example.com/","interval":"10s"}'` + "\n"
	script += `curl --retry 30 --retry-delay 1 localhost:7468/v1/polls/home` + "\n"
	ran := 0
	for _, path := range []string{"docs/OPERATIONS.md", "docs/COORDINATION.md", "docs/HTTP.md"} {
		for _, c := range documentedCommands(read(t, path)) {
			script += "echo " + path + ": '" + strings.ReplaceAll(c, "'", "") + "'\n" + c + "\n"
			ran++
		}
	}
	if ran < 15 {
		t.Fatalf("the documents have %d commands", ran)
	}

	oneOfThree(t, func() error {
		_, err := runScript(t, bin, []step{{commands: script + "kill $a $b\nwait $a $b\n"}})
		return err
	})
}

// documentedCommands returns the curl and regent commands of a document: lines of its sh blocks, and what stands in
// backquotes in its tables.
func documentedCommands(markdown string) []string {
	var found []string
	for line := range strings.Lines(markdown) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, cell := range regexp.MustCompile("`((curl|\\.bin/regent serve) [^`]*)`").FindAllStringSubmatch(line,
			-1) {
			found = append(found, cell[1])
		}
	}
	for _, block := range blocks(markdown, "sh") {
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "curl ") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}

	return found
}

// buildRegent builds the command and returns its path.
func buildRegent(t *testing.T) string {
	t.Helper()

	bin := filepath.Join(t.TempDir(), "regent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/regent")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return bin
}

// step is a block of commands, and the output that the README shows right after it.
type step struct {
	commands string
	shows    string
}

// readmeSteps returns the blocks of the README that start or ask a node.
func readmeSteps(t *testing.T) []step {
	t.Helper()

	fence := regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")
	var steps []step
	elsewhere := false // a block that needs a Redis: a test of cmd/regent runs it
	for _, block := range fence.FindAllStringSubmatch(read(t, "README.md"), -1) {
		if block[1] == "sh" {
			elsewhere = strings.Contains(block[2], "redis://")
		}

		switch {
		case elsewhere:
		case block[1] == "sh":
			steps = append(steps, step{commands: block[2]})
		case len(steps) == 0 || steps[len(steps)-1].shows != "":
			t.Fatalf("the README shows output of no command:\n%s", block[2])
		default:
			steps[len(steps)-1].shows = block[2]
		}
	}
	if len(steps) < 5 {
		t.Fatalf("the README has %d blocks of commands", len(steps))
	}

	return steps
}

// mark separates the outputs of two blocks.
const mark = "-- the next block --\n"

// readmeScript returns the commands as one script, with files below dir and ports that are free.
func readmeScript(t *testing.T, dir string, steps []step) string {
	t.Helper()

	replace := []string{"make build\n", "", "/tmp/", dir + "/"}
	for _, port := range []string{"7468", "7469"} {
		free := strconv.Itoa(freePort(t))
		replace = append(replace, "127.0.0.1:"+port, "127.0.0.1:"+free, "localhost:"+port, "127.0.0.1:"+free)
		replace = append(replace, "https://example.com/", "http://127.0.0.1:"+free+"/livez") // a target that answers
	}
	// a node that is left would keep the output open
	script := "set -e\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n"
	for _, s := range steps {
		script += strings.NewReplacer(replace...).Replace(s.commands) + "printf '%s' '" + mark + "'\n"
	}

	return script
}

// runScript runs the steps as one script, in a directory of their own that has the command in .bin, and returns what
// they print. What they have started ends with the script.
func runScript(t *testing.T, bin string, steps []step) (string, error) {
	t.Helper()

	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, ".bin"), 0o755), os.Symlink(bin, filepath.Join(dir, ".bin",
		"regent"))); err != nil {
		t.Fatal(err)
	}

	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), "bash", "-c", readmeScript(t, dir, steps))
	c.Dir = dir
	c.Env = append(withoutRegent(os.Environ()), "no_proxy=127.0.0.1")
	c.Stdout = &out
	c.Stderr = &errs
	c.WaitDelay = time.Minute
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	defer func() {
		if c.Process != nil {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // an error says that nothing is left
		}
	}()
	if err := c.Run(); err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, path := range logs {
			b, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", filepath.Base(path), b)
		}
		return "", fmt.Errorf("%w\n%s%s", err, out.String(), errs.String())
	}

	return out.String(), nil
}

// withoutRegent returns the environment without variables that would configure a node.
func withoutRegent(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, "REGENT_") && !strings.HasPrefix(v, "COORDINATOR_") {
			kept = append(kept, v)
		}
	}

	return kept
}

// anyTime replaces each length of time in a text.
func anyTime(text string) string {
	return regexp.MustCompile(`\d+(\.\d+)?(ms|s)\b`).ReplaceAllString(strings.TrimSpace(text), "0ms")
}

func freePort(t *testing.T) int {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	return l.Addr().(*net.TCPAddr).Port
}
