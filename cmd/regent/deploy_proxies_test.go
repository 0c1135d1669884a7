package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// instance is a node and an application beside it, which answers with the node's name, and with 503 unless that leads.
type instance struct {
	*daemon
	app *httptest.Server
}

func startInstance(t *testing.T, name, store string) *instance {
	t.Helper()
	i := &instance{daemon: start(t, name, store, nil)}
	i.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp, err := http.Get(i.url + "/leader")
		if err != nil || resp.StatusCode != http.StatusOK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		fmt.Fprint(w, name)
	}))
	t.Cleanup(i.app.Close)

	return i
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// TestDeployProxies runs HAProxy and nginx with the files of deploy in front of two real nodes, and kills the leader.
func TestDeployProxies(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, text string, a, b *instance) (check, start *exec.Cmd){
		"haproxy.cfg": runHAProxy, "nginx.conf": runNginx,
	} {
		t.Run(name, func(t *testing.T) {
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := free.Addr().String()
			if err := free.Close(); err != nil {
				t.Fatal(err)
			}

			store := sqliteStore(t)
			a := startInstance(t, "a", store)
			a.until("/leader", http.StatusOK)
			b := startInstance(t, "b", store)
			b.until("/standby", http.StatusOK)

			text := strings.NewReplacer("bind :8000", "bind "+address, "listen 8000", "listen "+address,
				"10.0.0.1:8080", a.app.Listener.Addr().String(), "10.0.0.2:8080", b.app.Listener.Addr().String(),
				"10.0.0.1:7468", "127.0.0.1:"+port(a.url), "10.0.0.2:7468", "127.0.0.1:"+port(b.url)).
				Replace(deployed(t, name))
			text = regexp.MustCompile(`(?m)^.*10\.0\.0\.3.*\n`).ReplaceAllString(text, "")
			test, proxy := run(t, text, a, b)
			if out, err := test.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			launch(t, name, proxy, nil)
			reaches := func(want string) {
				t.Helper()
				waitFor(t, "requests reach "+want, func() bool {
					resp, err := http.Post("http://"+address, "text/plain", strings.NewReader("x"))
					if err != nil {
						return false
					}
					defer resp.Body.Close()
					body, _ := io.ReadAll(resp.Body)
					return resp.StatusCode == http.StatusOK && string(body) == want
				})
			}
			reaches("a")
			if err := a.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			reaches("b")
		})
	}
}

func runHAProxy(t *testing.T, text string, a, b *instance) (check, start *exec.Cmd) {
	haproxy := installed(t, "haproxy")
	text = strings.NewReplacer("check port 7468", "check", "server node-a ", "server node-a port "+port(a.url)+" ",
		"server node-b ", "server node-b port "+port(b.url)+" ").Replace(text)
	text = regexp.MustCompile(`server (node-\w) (port \d+) (\S+)`).ReplaceAllString(text, "server $1 $3 $2")
	file := writeFile(t, filepath.Join(t.TempDir(), "haproxy.cfg"), text)
	return exec.Command(haproxy, "-c", "-f", file), exec.Command(haproxy, "-db", "-f", file)
}

func runNginx(t *testing.T, text string, _, _ *instance) (check, start *exec.Cmd) {
	nginx := installed(t, "nginx")
	dir := inMemory(t)
	file := writeFile(t, filepath.Join(dir, "nginx.conf"), text)
	options := "daemon off; master_process off; pid " + dir + "/pid; error_log stderr;"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text = strings.Replace(text, "http {", fmt.Sprintf("http {\n    %s_temp_path %s/%s;", kind, dir, kind), 1)
	}
	text = strings.Replace(text, "http {", "http {\n    access_log off;", 1)
	writeFile(t, file, text)
	return exec.Command(nginx, "-t", "-p", dir, "-c", file, "-g", options),
		exec.Command(nginx, "-p", dir, "-c", file, "-g", options)
}
