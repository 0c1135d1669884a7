// Package kubetest starts kube-apiserver for tests: a process of its own, with an etcd of its own, which can be killed
// and frozen. 'make test-kube' builds it.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/internal/etcdtest"
)

// Variable is the environment variable that names the built kube-apiserver.
const Variable = "REGENT_KUBE_APISERVER"

// Missing says why a test is skipped without an API server.
const Missing = "it needs a kube-apiserver, which takes minutes to build: 'make test-kube' does, and runs this test"

// ready is how long an API server may take to answer after its start.
const ready = 5 * time.Minute

// Admin may do everything; see [Server.Kubeconfig].
const Admin = "admin"

// Server is one API server with its etcd.
type Server struct {
	Dir    string
	Port   int
	binary string
	lab    *etcdtest.Lab
	etcd   []*etcdtest.Member
	client *http.Client
	args   []string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Available reports whether there is a built kube-apiserver.
func Available() bool { return os.Getenv(Variable) != "" }

// Start starts an API server with RBAC, and waits until it answers. Users are the names of those who may log in, beside
// [Admin]. Arguments are those of kube-apiserver. The caller stops it.
func Start(users []string, args ...string) (*Server, error) {
	s := &Server{binary: os.Getenv(Variable), Port: etcdtest.FreePort()}
	if s.binary == "" {
		return nil, errors.New(Missing)
	}
	lab, err := etcdtest.New()
	if err != nil {
		return nil, err
	}
	s.lab = lab
	s.Dir = filepath.Join(lab.Dir, "kube")

	if err = s.prepare(users, args); err == nil {
		s.etcd, err = lab.Start("kube", 1)
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// prepare writes the files that the API server reads.
func (s *Server) prepare(users, args []string) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(s.file("sa.key"), text, 0o600); err != nil {
		return err
	}

	tokens := Token(Admin) + "," + Admin + "," + Admin + ",system:masters\n"
	for _, u := range users {
		tokens += Token(u) + "," + u + "," + u + "\n"
	}
	s.args = args
	return os.WriteFile(s.file("tokens"), []byte(tokens), 0o600)
}

func (s *Server) file(name string) string { return filepath.Join(s.Dir, name) }

// Token returns the bearer token of a user.
func Token(user string) string { return "token-of-" + user }

// Restart starts the API server, after a Kill or for the first time, and waits until it answers.
func (s *Server) Restart() error {
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(s.binary, append([]string{
		"--etcd-servers=" + s.etcd[0].URL(), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.Port),
		"--cert-dir=" + s.file("certs"), "--token-auth-file=" + s.file("tokens"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + s.file("sa.key"),
		"--service-account-signing-key-file=" + s.file("sa.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount", "--etcd-compaction-interval=0", "--shutdown-delay-duration=0s",
	}, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	etcdtest.DieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}

	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	return s.await()
}

// await waits until the API server is ready and has the namespace default.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	for {
		_, err := s.Do(ctx, http.MethodGet, "/readyz", "", "")
		if err == nil {
			_, err = s.Do(ctx, http.MethodGet, "/api/v1/namespaces/default", "", "")
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(s.file("log"))
			return fmt.Errorf("kube-apiserver does not answer: %w: %s", err, text[max(0, len(text)-4000):])
		}
		time.Sleep(100 * time.Millisecond) // before it is asked again
	}
}

// Do sends a request as [Admin], and returns the answer. The body is YAML, unless another content type is given.
func (s *Server) Do(ctx context.Context, method, path, contentType, body string) (string, error) {
	return s.DoAs(ctx, Token(Admin), method, path, contentType, body)
}

// DoAs is Do with a bearer token.
func (s *Server) DoAs(ctx context.Context, token, method, path, contentType, body string) (string, error) {
	client, err := s.httpClient()
	if err != nil {
		return "", err
	}
	if contentType == "" {
		contentType = "application/yaml"
	}
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(short, method, s.URL()+path, bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", contentType)

	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return string(text), err
}

// httpClient returns a client that trusts the certificate which the API server has made for itself.
func (s *Server) httpClient() (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}

	text, err := os.ReadFile(s.CA())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("the API server has not written its certificate yet")
	}
	s.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true, // it is killed and started again
	}}
	return s.client, nil
}

// CA returns the file with the certificate of the API server.
func (s *Server) CA() string { return s.file("certs/apiserver.crt") }

// URL returns the URL of the API server.
func (s *Server) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", s.Port) }

// Kubeconfig writes a kubeconfig for a user, with a server of another address if there is one, and returns the file.
func (s *Server) Kubeconfig(user, url string) (string, error) {
	if url == "" {
		url = s.URL()
	}
	file := s.file("kubeconfig-" + user + "-" + strings.NewReplacer("/", "", ":", "").Replace(url))
	return file, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "%s", certificate-authority: "%s"}}]
users: [{name: it, user: {token: "%s"}}]
`, url, s.CA(), Token(user)), 0o600)
}

// Namespace creates a namespace.
func (s *Server) Namespace(name string) error {
	_, err := s.Do(context.Background(), http.MethodPost, "/api/v1/namespaces", "",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}\n")
	return err
}

// Kill ends the API server at once. Its etcd goes on.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it is not there any more, or dies
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Stop ends everything: the API server before its etcd.
func (s *Server) Stop() {
	s.Kill()
	etcdtest.Stop(s.etcd)
	s.lab.Close()
}

// Etcd returns the member that has the data.
func (s *Server) Etcd() *etcdtest.Member { return s.etcd[0] }

// Lab returns what the member was started by.
func (s *Server) Lab() *etcdtest.Lab { return s.lab }
