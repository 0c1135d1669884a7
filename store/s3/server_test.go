package s3

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent/driver"
)

// The tests use a real server: versitygw over a directory, which module testserver embeds. It is a process of its own,
// built once without the race detector.
var (
	shared *server // for most tests, each with a prefix of its own
	binary string
)

const (
	bucket    = "regent-test"
	accessKey = "tester"
	secretKey = "s3cret-of-the-tests"
)

func TestMain(m *testing.M) {
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	for _, name := range os.Environ() { // nothing of this machine's own configuration
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	os.Setenv("AWS_CONFIG_FILE", os.DevNull)
	os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)

	dir, err := os.MkdirTemp("", "regent-s3")
	if err == nil {
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "testserver")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Dir = "testserver"
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err == nil {
		shared, err = launch(filepath.Join(dir, "shared"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a test server:", err)
		return 1
	}
	defer shared.stop()
	return run()
}

// server is a versitygw of the tests' own.
type server struct {
	dir  string // buckets are directories in it
	addr string
	cmd  *exec.Cmd
}

// launch starts a server with one bucket, and returns when it answers.
func launch(dir string) (*server, error) {
	s := &server{dir: filepath.Join(dir, "data"), addr: freeAddr()}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	in := &s3.CreateBucketInput{Bucket: aws.String(bucket)}
	_, err := client(s.endpoint()).CreateBucket(context.Background(), in)
	return s, err
}

func startServer(t *testing.T) *server {
	t.Helper()
	s, err := launch(t.TempDir())
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() error {
	out, err := os.OpenFile(filepath.Join(filepath.Dir(s.dir), "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(binary, "-dir", s.dir, "-listen", s.addr, "-user", accessKey, "-secret", secretKey)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	dieWithUs(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	up := eventually(3*time.Minute, func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	if !up {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("the server does not answer: %s", text)
	}
	return nil
}

// stop kills the server.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	s.cmd = nil
}

func freeAddr() string {
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(10000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
}

// client returns a plain client of the SDK, for what tests do behind a store's back.
func client(endpoint string) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Credentials: credentials(),
		Retryer: aws.NopRetryer{}, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}

// deleteObject deletes an object of the shared server behind every store's back.
func deleteObject(t testing.TB, key string) {
	t.Helper()
	in := &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)}
	if _, err := client(shared.endpoint()).DeleteObject(context.Background(), in); err != nil {
		t.Error(err)
	}
}

func credentials() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
	})
}

var prefixes atomic.Uint64

// fresh returns the address of an empty prefix at an endpoint, which is http://host:port.
func fresh(endpoint string) string {
	return fmt.Sprintf("s3://%s/test-%d?endpoint=%s", bucket, prefixes.Add(1), url.QueryEscape(endpoint))
}

func (s *server) endpoint() string { return "http://" + s.addr }

// open opens a store that is closed with the test.
func open(t testing.TB, addr string) *Store {
	t.Helper()
	s, err := Open(t.Context(), addr, Options{Credentials: credentials()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// unprobed opens a store without the race.
func unprobed(t testing.TB, addr string) *Store {
	t.Helper()
	s, err := Open(t.Context(), addr, Options{Credentials: credentials(), NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func eventually(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); ; {
		if ok() {
			return true
		}
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
}

func held(name, id string, epoch uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: id, Incarnation: id + "1"}, Epoch: epoch, Nonce: rand.Uint64(),
		Duration: time.Minute,
	}
}

func swap(t testing.TB, s driver.Store, l driver.Record) driver.Record {
	t.Helper()
	got, err := s.Swap(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
