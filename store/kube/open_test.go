package kube

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/kubetest"
	"github.com/regentd/regent/storetest"
)

func TestAddress(t *testing.T) {
	a, err := parseAddress("kube://my-ns?kubeconfig=/etc/k%26c&context=prod&prefix=app")
	if err != nil || *a != (address{namespace: "my-ns", prefix: "app", kubeconfig: "/etc/k&c", context: "prod"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a.String() != "kube://my-ns?prefix=app" {
		t.Errorf("it is shown as %s", a)
	}

	for addr, want := range map[string]string{
		"kube:ns":                     "must begin with kube://",
		"kube://":                     `namespace ""`,
		"kube://My_Ns":                `namespace "My_Ns"`,
		"kube://u:s3cret@ns":          "credentials come from",
		"kube://ns:6443":              "without user",
		"kube://ns/path":              "without user",
		"kube://ns?token=s3cret":      "token is not known",
		"kube://ns?prefix=a&prefix=b": "prefix must be given once",
		"kube://ns?context=":          "context must be given once",
		"kube://ns?prefix=A":          `prefix "A"`,
		"kube://ns?prefix=x2f":        `prefix "x2f"`,
	} {
		_, err := Open(t.Context(), addr, Options{})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open of %s: %v, want %q", addr, err, want)
		}
		if err := Validate(addr); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Validate of %s: %v", addr, err)
		}
	}

	if got := Redact("kube://u:s3cret@ns?token=s3cret"); got != "kube://***@ns" {
		t.Errorf("redacted: %s", got)
	}
}

// TestConfiguration checks which kubeconfig counts. None of them is connected to.
func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := func(name, server string) string {
		path := filepath.Join(dir, name)
		text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}},
{name: b, context: {cluster: b}}], clusters: [{name: a, cluster: {server: "` + server + `"}},
{name: b, cluster: {server: "https://other"}}]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named, variable := file("named", "https://named"), file("variable", "https://variable")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", dir)
	host := func(addr string) string {
		t.Helper()
		return configOf(t, addr).Host
	}

	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	err := Validate("kube://ns")
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "KUBECONFIG") {
		t.Errorf("without any kubeconfig: %v", err)
	}
	t.Setenv("KUBECONFIG", variable)
	if got := host("kube://ns"); got != "https://variable" {
		t.Errorf("KUBECONFIG is not read: %s", got)
	}
	if got := host("kube://ns?kubeconfig=" + named); got != "https://named" {
		t.Errorf("the kubeconfig of the address is not read: %s", got)
	}
	if got := host("kube://ns?context=b"); got != "https://other" {
		t.Errorf("the context of the address is not used: %s", got)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"kube://ns?kubeconfig=" + empty:         `kubeconfig "` + empty + `": kubeconfig must be a file with a cluster`,
		"kube://ns?context=none":                "none",
		"kube://ns?kubeconfig=" + dir + "/none": "none",
	} {
		if err := Validate(addr); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate of %s: %v", addr, err)
		}
	}

	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	if _, err := os.Stat("/var/run/secrets/kubernetes.io"); err != nil {
		if err := Validate("kube://ns"); err == nil || !strings.Contains(err.Error(), "service account of this pod") {
			t.Errorf("in a pod without a token: %v", err)
		}
	}
}

// role returns the Role of deploy/kubernetes-rbac.yaml.
func role(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "---\n") {
		if strings.Contains(document, "kind: Role\nmetadata") {
			return document
		}
	}
	t.Fatal("there is no Role")
	return ""
}

// grant lets a user do in a namespace what a Role says.
func grant(t *testing.T, s *kubetest.Server, namespace, user, role string) {
	t.Helper()
	path := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	binding := "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: regent}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: regent}\n" +
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: " + user + "}]\n"
	for object, text := range map[string]string{"/roles": role, "/rolebindings": binding} {
		if _, err := s.Do(t.Context(), http.MethodPost, path+object, "", text); err != nil {
			t.Fatal(err)
		}
	}
}

// openAs opens a store as a user, once the API server knows what that user may do.
func openAs(t *testing.T, s *kubetest.Server, addr, user string, opts Options) *Store {
	t.Helper()
	addr = "kube://" + namespaceOf(addr) + "?kubeconfig=" + kubeconfig(t, s, user, "")
	var store *Store
	eventually(t, user+" may do what was granted", func() bool {
		var err error
		store, err = Open(t.Context(), addr, opts)
		if err != nil && !strings.Contains(err.Error(), "forbidden") {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestLeastPrivilege does everything with the permissions that deploy/kubernetes-rbac.yaml grants, and with fewer.
func TestLeastPrivilege(t *testing.T) {
	srv := server(t)
	addr := fresh(t, srv)
	as := "kube://" + namespaceOf(addr) + "?kubeconfig=" + kubeconfig(t, srv, "regent", "")
	_, err := Open(t.Context(), as, Options{})
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "kubernetes-rbac.yaml") {
		t.Errorf("without any permission: %v", err)
	}

	grant(t, srv, namespaceOf(addr), "regent", role(t))
	warn := func(w string) { t.Errorf("warning: %s", w) }
	s := openAs(t, srv, addr, "regent", Options{OnWarning: warn})
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a/b", "x", 1))
	notified(t, s, woken)
	l.Nonce++
	l = storetest.Swap(t, s, l)
	if names := storetest.Names(t, s, "a/"); len(names) != 1 {
		t.Errorf("List yields %q", names)
	}
	l.Holder = driver.Identity{}
	if err := s.Remove(t.Context(), storetest.Swap(t, s, l)); err != nil {
		t.Error(err)
	}

	t.Run("a_user_that_only_reads", func(t *testing.T) {
		addr := fresh(t, srv)
		grant(t, srv, namespaceOf(addr), "reader", strings.Replace(role(t),
			"[get, list, watch, create, patch, delete]", "[get, list]", 1))
		warned := make(chan string, 10)
		s := openAs(t, srv, addr, "reader", Options{NoProbe: true, OnWarning: func(w string) { warned <- w }})
		if _, err := s.Swap(t.Context(), held("a", "x", 1)); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("a swap: %v, want a refusal", err)
		}
		s.Subscribe(t.Context(), driver.Names("a"))
		if w := <-warned; !strings.Contains(w, "polling alone") {
			t.Errorf("the warning is %s", w)
		}
		reader := "kube://" + namespaceOf(addr) + "?kubeconfig=" + kubeconfig(t, srv, "reader", "")
		if _, err := Open(t.Context(), reader, Options{}); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Open with the probe: %v, want a refusal", err)
		}
	})

	t.Run("a_namespace_that_is_not_there", func(t *testing.T) {
		addr := strings.Replace(addr, namespaceOf(addr), "nowhere", 1)
		_, err := Open(t.Context(), addr, Options{})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "create the namespace") {
			t.Errorf("Open: %v", err)
		}
	})

	t.Run("a_user_that_nobody_knows", func(t *testing.T) {
		addr := "kube://" + namespaceOf(addr) + "?kubeconfig=" + kubeconfig(t, srv, "stranger", "")
		if _, err := Open(t.Context(), addr, Options{}); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Open: %v, want a refusal", err)
		}
	})
}
