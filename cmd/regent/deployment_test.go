package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy/"

// TestUnit checks the unit that we ship with systemd-analyze.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile(deploy + "regent.service")
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range []string{`Environment=REGENT_NODE=%H`, `KillMode=process`, `Delegate=yes`,
		`RestartPreventExitStatus=64 78`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(text) {
			t.Errorf("the unit lacks %s", line)
		}
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here to verify the rest")
	}

	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}

	unit := filepath.Join(t.TempDir(), "regent.service")
	if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/local/bin/regent"), []byte(bin)),
		0o644); err != nil {
		t.Fatal(err)
	}

	out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "regent.service:") {
		t.Errorf("%v: %s", err, out)
	}
}

// manifest is the part of a Kubernetes object that names depend on.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ServiceName          string `yaml:"serviceName"`
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
		Template struct {
			Spec struct {
				ShareProcessNamespace bool `yaml:"shareProcessNamespace"`
				Containers            []struct {
					Env []struct {
						Name      string
						ValueFrom struct {
							FieldRef struct {
								FieldPath string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					}
					VolumeMounts []struct{ Name string } `yaml:"volumeMounts"`
				}
			}
		}
	}
}

// TestManifest checks that names and volumes outlive a pod.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile(deploy + "kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}

	objects := map[string]manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}

		objects[m.Kind] = m
	}

	set, ok := objects["StatefulSet"]
	if !ok || set.Spec.ServiceName == "" || objects["Service"].Metadata.Name != set.Spec.ServiceName {
		t.Fatalf("there is no StatefulSet with a service of its own: %v", objects)
	}

	pod := set.Spec.Template.Spec
	if pod.ShareProcessNamespace {
		t.Error("processes are shared: the node is then neither pid 1 nor below it, and the reaper ends with it")
	}

	named, volume := false, pod.Containers[0].VolumeMounts[0].Name
	for _, v := range pod.Containers[0].Env {
		named = named || v.Name == "REGENT_NODE" && v.ValueFrom.FieldRef.FieldPath == "metadata.name"
	}

	if !named {
		t.Error("the node is not named after its pod")
	}
	if claims := set.Spec.VolumeClaimTemplates; len(claims) != 1 || claims[0].Metadata.Name != volume {
		t.Errorf("%s does not outlive a pod", volume)
	}
}
