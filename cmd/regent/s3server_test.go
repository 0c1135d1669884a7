package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	dir string // the bucket is a directory in it
	log string
}

const s3Secret = "hush-secret-of-the-bucket"

func startS3(t *testing.T) *s3Server {
	t.Helper()
	bin, err := s3Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := inMemory(t)
	s := &s3Server{t: t, at: freePort(), dir: dir, log: filepath.Join(dir, "log")}
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

// s3Address returns the address of a prefix in the bucket of a server, or of a proxy before it.
func s3Address(at, prefix string) string {
	return "s3://bucket/" + prefix + "?endpoint=" + url.QueryEscape("http://"+at)
}

// s3Env is what a node needs for a test server. Its requests bear its name in the server's log.
func s3Env(node string) []string {
	return []string{
		"AWS_ACCESS_KEY_ID=node", "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_SDK_UA_APP_ID=" + node,
	}
}
