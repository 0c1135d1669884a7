package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// installed returns the path of a program that checks a file of deploy. Under 'make test-deploy' it must be there.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}

	switch {
	case err == nil:
		return path
	case os.Getenv("REGENT_DEPLOY") != "":
		t.Fatalf("%s: %v", name, err)
	}
	t.Skipf("no %s here", name)
	return ""
}

// deployed returns the text of a file of deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accepts checks that the command takes arguments and variables of a file of deploy: each flag, key and variable is one
// that it knows. The store, and files that only the target has, are replaced.
func accepts(t *testing.T, args, env []string) {
	t.Helper()
	args = append(slices.Clone(args), "--check-config")
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--store=") }); i >= 0 {
		args = slices.Delete(args, i, i+1)
	}

	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "REGENT_STORE=") })
	env = append(env, "REGENT_STORE="+sqliteStore(t))
	out, err := command(t, env, args...).CombinedOutput()
	if err != nil {
		t.Errorf("regent %v with %v: %v: %s", args, env, err, out)
	}

	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !strings.Contains(string(out), "variable "+name) {
			t.Errorf("regent does not use %s: %s", name, out)
		}
	}
}

const someToken = "0123456789abcdef0123456789abcdef"

func TestDeployUnit(t *testing.T) {
	text := deployed(t, "regent.service")
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/regent (.*)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatal("the unit does not start regent")
	}

	dir := inMemory(t)
	replace := strings.NewReplacer("/etc/regent/regent.yaml", writeFile(t, filepath.Join(dir, "regent.yaml"), "{}\n"),
		"/etc/regent/token", writeFile(t, filepath.Join(dir, "token"), someToken+"\n"), "%H", "host")
	var env []string
	for _, m := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(text, -1) {
		env = append(env, replace.Replace(m[1]))
	}
	accepts(t, strings.Fields(replace.Replace(line[1])), env)
}

func TestDeployManifest(t *testing.T) {
	for _, document := range strings.Split(deployed(t, "kubernetes.yaml"), "\n---\n") {
		var object struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						SecurityContext struct {
							RunAsUser int `yaml:"runAsUser"`
							FSGroup   int `yaml:"fsGroup"`
						} `yaml:"securityContext"`
						Containers []struct {
							Args           []string
							Env            []struct{ Name, Value string }
							WorkingDir     string `yaml:"workingDir"`
							LivenessProbe  probe  `yaml:"livenessProbe"`
							ReadinessProbe probe  `yaml:"readinessProbe"`
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "StatefulSet" {
			continue
		}

		pod := object.Spec.Template.Spec
		if image := imageUser(t); pod.SecurityContext.RunAsUser != image || pod.SecurityContext.FSGroup != image {
			t.Errorf("the pod runs as %+v, and the image as %d", pod.SecurityContext, image)
		}

		c := pod.Containers[0]
		values := map[string]string{
			"REGENT_NODE": "regent-0", "REGENT_ADVERTISE": "10.0.0.1:7468", "REGENT_TOKEN": someToken,
			"REGENT_STORE": "memory:",
		}
		var env []string
		for _, v := range c.Env {
			if value, ok := values[v.Name]; ok {
				env = append(env, v.Name+"="+value)
			} else if strings.HasPrefix(v.Name, "REGENT_") {
				t.Errorf("this test gives %s no value", v.Name)
			}
		}
		accepts(t, c.Args, env)

		if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("%+v", c)
		}
		if dir := imageLine(t, "WORKDIR"); c.WorkingDir != dir {
			t.Errorf("the pod works in %s, and the image in %s", c.WorkingDir, dir)
		}
		return
	}
	t.Error("there is no StatefulSet")
}

// probe is a probe of a container.
type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

func TestDeployCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Build       struct{ Context, Dockerfile string }
			Command     []string
			Environment map[string]string
			Ports       []string
			Volumes     []string
			Init        bool
			Stop        string `yaml:"stop_grace_period"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}

	ports := map[string]bool{}
	nodes := 0
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			if volume, _, _ := strings.Cut(v, ":"); !slices.Contains([]string{"redis"}, volume) || name == "redis" {
				if _, ok := file.Volumes[volume]; !ok {
					t.Errorf("%s mounts %s, which is no volume", name, volume)
				}
			}
		}
		if name == "redis" {
			continue
		}

		nodes++
		if _, err := os.Stat(filepath.Join(deploy, s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
		if s.Environment["REGENT_NODE"] != name || s.Environment["REGENT_ADVERTISE"] != name+":7468" || s.Stop == "" ||
			len(s.Ports) != 1 || ports[s.Ports[0]] || !strings.HasSuffix(s.Volumes[0], ":"+imageLine(t, "WORKDIR")) {
			t.Errorf("%s: %+v", name, s)
		}
		ports[s.Ports[0]] = true

		var env []string
		for k, v := range s.Environment {
			if k == "REGENT_TOKEN" {
				v = someToken
			}
			env = append(env, k+"="+v)
		}
		accepts(t, s.Command, env)
	}
	if nodes != 3 {
		t.Errorf("%d nodes", nodes)
	}
}

// imageLine returns the argument of the last instruction of that kind in the Dockerfile.
func imageLine(t *testing.T, instruction string) string {
	t.Helper()
	all := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(deployed(t, "Dockerfile"), -1)
	if len(all) == 0 {
		t.Fatalf("the Dockerfile has no %s", instruction)
	}
	return all[len(all)-1][1]
}

// imageUser returns the user of the image.
func imageUser(t *testing.T) int {
	t.Helper()
	var user, group int
	if n, err := fmt.Sscanf(imageLine(t, "USER"), "%d:%d", &user, &group); n != 2 || err != nil || user == 0 {
		t.Errorf("the image runs as %s", imageLine(t, "USER"))
	}
	return user
}

// words returns the words of an instruction in the form of a JSON list.
func words(t *testing.T, instruction string) (all []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(imageLine(t, instruction)), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
