package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// leaderObject is an object of deploy/kubernetes-leader.yaml.
type leaderObject struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Selector any
		Ports    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					ReadinessProbe probe `yaml:"readinessProbe"`
				}
				Volumes []struct {
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

func leaderObjects(t *testing.T) map[string]leaderObject {
	t.Helper()
	objects := map[string]leaderObject{}
	for d := yaml.NewDecoder(strings.NewReader(deployed(t, "kubernetes-leader.yaml"))); ; {
		var o leaderObject
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects[o.Kind] = o
	}
}

// TestDeployLeaderManifest checks that the parts of the Service for the leader fit together, and fit the StatefulSet.
func TestDeployLeaderManifest(t *testing.T) {
	objects := leaderObjects(t)
	pod := objects["Deployment"].Spec.Template
	container := pod.Spec.Containers[0]
	config := objects["ConfigMap"].Data["haproxy.cfg"]

	if got := fmt.Sprint(objects["Service"].Spec.Selector); got != fmt.Sprint(pod.Metadata.Labels) {
		t.Errorf("the Service selects %s, and the pods have %v", got, pod.Metadata.Labels)
	}
	if objects["Service"].Spec.Ports[0].TargetPort != container.Ports[0].Name {
		t.Errorf("the Service sends requests to port %s", objects["Service"].Spec.Ports[0].TargetPort)
	}
	if !strings.Contains(config, fmt.Sprintf("bind :%d\n", container.Ports[0].ContainerPort)) {
		t.Errorf("HAProxy does not listen on port %d", container.Ports[0].ContainerPort)
	}
	if !strings.Contains(config, "monitor-uri "+container.ReadinessProbe.HTTPGet.Path+"\n") {
		t.Errorf("the probe asks for %s", container.ReadinessProbe.HTTPGet.Path)
	}
	if pod.Spec.Volumes[0].ConfigMap.Name != objects["ConfigMap"].Metadata.Name {
		t.Errorf("the pod mounts %q", pod.Spec.Volumes[0].ConfigMap.Name)
	}

	set := deployed(t, "kubernetes.yaml")
	name := regexp.MustCompile(`serviceName: (\w+)\n`).FindStringSubmatch(set)[1]
	replicas := regexp.MustCompile(`replicas: (\d+)\n`).FindStringSubmatch(set)[1]
	servers := regexp.MustCompile(`(?m)^ +server \S+ (\S+)$`).FindAllStringSubmatch(config, -1)
	if fmt.Sprint(len(servers)) != replicas {
		t.Errorf("%d servers, and the StatefulSet has %s replicas", len(servers), replicas)
	}
	for i, s := range servers {
		if want := fmt.Sprintf("%s-%d.%s.default.svc.cluster.local:7468", name, i, name); s[1] != want {
			t.Errorf("server %d is %s, and its pod %s", i, s[1], want)
		}
	}
}

// TestDeployLeaderService runs HAProxy with the configuration of the manifest in front of two real nodes, and kills the
// leader. Clients ask for the name of the Service, which no node knows as its own.
func TestDeployLeaderService(t *testing.T) {
	haproxy := installed(t, "haproxy")
	store := sqliteStore(t)
	a := start(t, "a", store, nil)
	a.until("/leader", http.StatusOK)
	b := start(t, "b", store, nil)
	b.until("/standby", http.StatusOK)
	address := freePort()

	config := leaderObjects(t)["ConfigMap"].Data["haproxy.cfg"]
	text := strings.NewReplacer("bind :8000", "bind "+address, "check port 7468", "check",
		"regent-0.regent.default.svc.cluster.local:7468", "127.0.0.1:"+port(a.url),
		"regent-1.regent.default.svc.cluster.local:7468", "127.0.0.1:"+port(b.url)).Replace(config)
	text = regexp.MustCompile(`(?m)^ +server regent-2.*\n`).ReplaceAllString(text, "")
	file := writeFile(t, filepath.Join(t.TempDir(), "haproxy.cfg"), text)
	for _, f := range []string{file, writeFile(t, filepath.Join(t.TempDir(), "whole.cfg"), config)} {
		if out, err := exec.Command(haproxy, "-c", "-f", f).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	launch(t, "haproxy", exec.Command(haproxy, "-db", "-f", file), nil)
	reaches := func(want string) {
		t.Helper()
		waitFor(t, "requests reach "+want, func() bool {
			r, err := http.NewRequest(http.MethodGet, "http://"+address+"/v1/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "regent-leader:7468"
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"node": "`+want+`"`)
		})
	}
	reaches("a")
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	reaches("b")
}
