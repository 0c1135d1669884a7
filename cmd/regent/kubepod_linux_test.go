package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/internal/kubetest"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

// pod is where nodes run as in a pod: with the files of a service account where every pod has them.
type pod struct {
	t      *testing.T
	server *kubetest.Server
	dir    string // what is mounted
	turn   int    // how often there was a new token
	within func(*exec.Cmd) *exec.Cmd
}

// newPod creates the service account of deploy/kubernetes-rbac.yaml, and mounts its files.
func newPod(t *testing.T, s *kubetest.Server) *pod {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "---\n") {
		path := "/api/v1/namespaces/default/serviceaccounts"
		for kind, plural := range map[string]string{"Role": "roles", "RoleBinding": "rolebindings"} {
			if strings.Contains(document, "kind: "+kind+"\nmetadata") {
				path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/" + plural
			}
		}
		if _, err := s.Do(t.Context(), http.MethodPost, path, "", document); err != nil {
			t.Fatal(err)
		}
	}

	p := &pod{t: t, server: s, dir: t.TempDir()}
	at := "$(readlink -f /var/run)"
	files := at + "/secrets/kubernetes.io/serviceaccount"
	p.within, _ = mounted(t, fmt.Sprintf("mount -t tmpfs none %s && mkdir -p %s && mount --bind %s %s", at, files,
		p.dir, files))
	return p
}

// token returns a new token of the service account, which is void once the secret of that name is deleted.
func (p *pod) token(secret string) string {
	p.t.Helper()
	_, err := p.server.Do(p.t.Context(), http.MethodPost, "/api/v1/namespaces/default/secrets", "",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: "+secret+"}\n")
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.server.Do(p.t.Context(), http.MethodPost,
		"/api/v1/namespaces/default/serviceaccounts/regent/token", "application/json",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600,`+
			`"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"`+secret+`"}}}`)
	var got struct{ Status struct{ Token string } }
	if err == nil {
		err = json.Unmarshal([]byte(answer), &got)
	}
	if err != nil || got.Status.Token == "" {
		p.t.Fatalf("a token: %v, %s", err, answer)
	}
	return got.Status.Token
}

// mount gives the pod a token, as the kubelet does: all files change at once, by a link.
func (p *pod) mount(token string) {
	p.t.Helper()
	ca, err := os.ReadFile(p.server.CA())
	if err != nil {
		p.t.Fatal(err)
	}
	p.turn++
	now := fmt.Sprintf("..%d", p.turn)
	steps := []func() error{
		func() error { return os.Mkdir(filepath.Join(p.dir, now), 0o755) },
		func() error { return os.WriteFile(filepath.Join(p.dir, now, "token"), []byte(token), 0o600) },
		func() error { return os.WriteFile(filepath.Join(p.dir, now, "ca.crt"), ca, 0o600) },
		func() error { return os.Symlink(now, filepath.Join(p.dir, "..next")) },
		func() error { return os.Rename(filepath.Join(p.dir, "..next"), filepath.Join(p.dir, "..data")) },
	}
	if p.turn == 1 {
		for _, name := range []string{"token", "ca.crt"} {
			steps = append(steps, func() error {
				return os.Symlink(filepath.Join("..data", name), filepath.Join(p.dir, name))
			})
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// start starts a node in the pod.
func (p *pod) start(name string) *daemon {
	p.t.Helper()
	env := []string{"KUBERNETES_SERVICE_HOST=127.0.0.1", fmt.Sprintf("KUBERNETES_SERVICE_PORT=%d", p.server.Port)}
	args := serveArgs(p.t, name, "kube://default", "--lease-duration", "10m")
	d := launch(p.t, name, p.within(command(p.t, env, args...)), nil)
	d.serves()
	return d
}

// leases returns the resource versions of the leases of the namespace, by name.
func (p *pod) leases() map[string]string {
	p.t.Helper()
	text, err := p.server.Do(p.t.Context(), http.MethodGet, leasesPath, "", "")
	var list struct {
		Items []struct {
			Metadata struct{ Name, ResourceVersion string }
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]string{}
	for _, l := range list.Items {
		all[l.Metadata.Name] = l.Metadata.ResourceVersion
	}
	return all
}

// TestKubeInPod runs nodes with the service account of a pod, whose token is replaced and then void.
func TestKubeInPod(t *testing.T) {
	t.Parallel()
	s := startKube(t)
	p := newPod(t, s)
	first := p.token("first")
	p.mount(first)
	nodes := map[string]*daemon{"a": p.start("a")}
	nodes["a"].until("/leader", http.StatusOK)
	nodes["b"] = p.start("b")
	nodes["b"].until("/standby", http.StatusOK)

	p.mount(p.token("second"))
	_, err := s.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/default/secrets/first", "", "")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the first token is void", func() bool {
		_, err := s.DoAs(t.Context(), first, http.MethodGet, leasesPath, "", "")
		return err != nil && strings.Contains(err.Error(), "401")
	})

	void := time.Now()
	before := p.leases()
	waitFor(t, "both nodes renew their heartbeats with the second token", func() bool {
		renewed := 0
		for name, version := range p.leases() {
			if strings.Contains(name, "member") && before[name] != version {
				renewed++
			}
		}
		return renewed == 2
	})
	t.Logf("both nodes renew with the second token %v after the first was void", time.Since(void))
	if code, _ := nodes["a"].get("/leader"); code != http.StatusOK {
		t.Errorf("a answers %d", code)
	}

	// The reaper has opened the store with the first token.
	nodes["a"].signal(syscall.SIGKILL)
	nodes["b"].until("/leader", http.StatusOK)
	nodes["b"].stop()
}
