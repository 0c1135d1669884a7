package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// s3Binary is a real S3 server, built once: versitygw over a directory.
var s3Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "regent-s3-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "testserver")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = filepath.Join("..", "..", "store", "s3", "testserver")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// s3Server is a real S3 server with one bucket, and its log.
type s3Server struct {
	t   *testing.T
	at  string
	log string
}

const s3Secret = "hush-secret-of-the-bucket"

func startS3(t *testing.T) *s3Server {
	t.Helper()
	bin, err := s3Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &s3Server{t: t, at: freePort(), log: filepath.Join(dir, "log")}
	cmd := exec.Command(bin, "-dir", dir, "-bucket", "bucket", "-listen", s.at, "-user", "node", "-secret", s3Secret,
		"-log", s.log)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said: %s", out)
		}
	})
	for limit := time.Now().Add(3 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.at)
		if err == nil {
			_ = conn.Close()
			return s
		}
		if time.Now().After(limit) {
			t.Fatalf("the S3 server does not answer: %v", err)
		}
	}
}

func (s *s3Server) address() string {
	return "s3://bucket/fleet?endpoint=" + url.QueryEscape("http://"+s.at)
}

// env is what a node needs for the server. Its requests bear its name in the server's log.
func (s *s3Server) env(node string) []string {
	return []string{
		"AWS_ACCESS_KEY_ID=node", "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_SDK_UA_APP_ID=" + node,
	}
}

// lines returns the lines of the server's log that match.
func (s *s3Server) lines(pattern string) []string {
	s.t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	re := regexp.MustCompile(pattern)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return !re.MatchString(l) })
}

// TestFleetOnS3 is a fleet of real processes that share nothing but a bucket.
func TestFleetOnS3(t *testing.T) {
	t.Run("J14_C07_without_a_profile_it_is_a_fleet_and_another_node_leads_after_a_kill", func(t *testing.T) {
		t.Parallel()
		s := startS3(t)
		names := []string{"a", "b", "c", "d"}
		var nodes []*daemon
		for _, name := range names {
			cmd := command(t, s.env("node-"+name), serveArgs(t, name, s.address())...)
			nodes = append(nodes, launch(t, name, cmd, nil))
		}
		for _, d := range nodes {
			d.await("msg=serving.*profile=fleet")
			d.serves()
		}
		stop := neverTwo(t, nodes...)
		first := firstLeader(t, nodes)
		epoch := first.epoch() // which ID should lead is a matter of TestFleet, which repeats it

		first.signal(syscall.SIGKILL)
		<-first.gone
		rest := slices.DeleteFunc(slices.Clone(nodes), func(d *daemon) bool { return d == first })
		second := firstLeader(t, rest)
		if got := second.epoch(); got <= epoch {
			t.Errorf("%s leads in epoch %v, after %v", second.name, got, epoch)
		}
		for _, d := range rest {
			if d != second {
				d.await("leader changed.*new_leader=" + second.name + "( |$)")
			}
		}
		stop()

		for _, d := range rest {
			metrics := d.text("/metrics")
			for _, op := range []string{"get", "put", "list"} {
				counted := regexp.MustCompile(`(?m)^regent_store_requests_total\{op="` + op + `"\} [1-9]`)
				if !counted.MatchString(metrics) {
					t.Errorf("%s counts no requests of kind %s", d.name, op)
				}
			}
			if said := d.said(s3Secret); len(said) > 0 || strings.Contains(metrics, s3Secret) {
				t.Errorf("%s shows its secret: %q", d.name, said)
			}
		}
		if n := len(s.lines("node-a")); n == 0 {
			t.Error("the server's log shows no request of node a")
		}
		for _, d := range rest {
			d.stop()
		}
	})

	t.Run("J01_nothing_contacts_the_bucket_before_the_jitter_has_passed", func(t *testing.T) {
		t.Parallel()
		store := newDoor(t)
		began := time.Now()
		s := &s3Server{at: store.listener.Addr().String()}
		start(t, "a", s.address(), s.env("a"), "--startup-jitter-min", "3s", "--startup-jitter-max", "3s")
		if came := store.first(t, began).Sub(began); came < 3*time.Second {
			t.Errorf("it came after %v", came)
		}
	})

	t.Run("a_heartbeat_shorter_than_the_server_allows_is_refused", func(t *testing.T) {
		t.Parallel()
		address := "s3://bucket?endpoint=" + url.QueryEscape("https://0123.r2.cloudflarestorage.com")
		for way, args := range everyStart(t, address, "--profile", "cluster", "--heartbeat-interval", "900ms") {
			code, out := ends(t, command(t, nil, args...))
			const want = "heartbeatInterval 900ms: heartbeatInterval must be at least 1s"
			if code != exitConfig || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	})
}

// firstLeader waits until one of the nodes leads.
func firstLeader(t *testing.T, nodes []*daemon) *daemon {
	t.Helper()
	var leader *daemon
	waitFor(t, "somebody leads", func() bool {
		for i := range leading(nodes) {
			leader = nodes[i]
		}
		return leader != nil
	})
	return leader
}

// epoch returns the epoch that a leader says that it leads in.
func (d *daemon) epoch() float64 {
	d.t.Helper()
	_, body := d.get("/leader")
	epoch, _ := body["epoch"].(float64)
	return epoch
}

// text returns what a node answers.
func (d *daemon) text(path string) string {
	d.t.Helper()
	resp, err := http.Get(d.url + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}
