package api

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

// rules is a file of alert rules, as far as this test reads it.
type rules struct {
	Groups []struct {
		Rules []struct {
			Record string            `yaml:"record"`
			Alert  string            `yaml:"alert"`
			Expr   string            `yaml:"expr"`
			For    string            `yaml:"for"`
			Labels map[string]string `yaml:"labels"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// described returns the metrics that a node can have, each with its labels.
func described() map[string][]string {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		newCollector(nil, "").Describe(all)
	}()

	form := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)
	metrics := map[string][]string{}
	for d := range all {
		m := form.FindStringSubmatch(d.String())
		metrics[m[1]] = strings.Split(m[2], ",")
	}

	return metrics
}

// TestAlertRules holds the rules that we ship against the metrics that there are: a rule on one that is not there never
// fires.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}

	var file rules
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}

	metrics := described()
	losses := 0
	use := regexp.MustCompile(`(regent_\w+)(?:\{(\w+)=)?`)

	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			uses := use.FindAllStringSubmatch(r.Expr, -1)
			name := r.Record + r.Alert
			if name == "" || seen[name] || r.Alert != "" && r.Labels["severity"] == "" || len(uses) == 0 {
				t.Errorf("%+v", r)
			}

			seen[name] = true

			// A store that has lost writes is behind for at most a lease: a rule that waits for longer never fires.
			if strings.Contains(r.Expr, "regent_store_behind") {
				t.Errorf("%s asks for what lasts no longer than a lease", r.Alert)
			}
			if r.Expr == "increase(regent_store_regressions_total[10m]) > 0" && r.For == "" {
				losses++
			}

			for _, m := range uses {
				labels, ok := metrics[m[1]]
				if !ok || m[2] != "" && !strings.Contains(strings.Join(labels, " "), m[2]) {
					t.Errorf("%s asks for %s, which no node has; there are %v", r.Alert, m[0], metrics)
				}
			}
		}
	}

	if losses != 1 {
		t.Errorf("%d rules fire when the store has lost writes", losses)
	}
	if !regexp.MustCompile(`(?m)^\s+expr: absent\(regent_leader\)$`).Match(text) {
		t.Error("no rule fires when every node is gone")
	}
}
