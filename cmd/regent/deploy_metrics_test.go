package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dashboardQueries returns the queries of the dashboard, by the titles of its panels, with the variable filled in.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat, RefID string }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "grafana.json")), &dashboard); err != nil {
		t.Fatal(err)
	}

	queries := map[string][]string{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		place := p.GridPos
		if p.Title == "" || p.Type == "" || ids[p.ID] || queries[p.Title] != nil || len(p.Targets) == 0 ||
			place.W == 0 || place.X+place.W > 24 {
			t.Errorf("%+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], strings.ReplaceAll(target.Expr, "$election", ".*"))
		}
	}
	if dashboard.Title == "" || dashboard.UID == "" || len(queries) < 15 {
		t.Fatalf("%s %s has %d panels", dashboard.Title, dashboard.UID, len(queries))
	}

	return queries
}

// TestDeployRules has promtool check the rules, run their tests, and parse the queries of the dashboard.
func TestDeployRules(t *testing.T) {
	promtool := installed(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = deploy
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v: %s", args, err, out)
		}
	}

	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for _, queries := range dashboardQueries(t) {
		for _, q := range queries {
			rules = append(rules, rule{fmt.Sprintf("query:%d", len(rules)), q})
		}
	}

	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "dashboard.yml"), string(text))
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDeployMetrics compares the metrics that the rules and the dashboard name with those that a real node exposes,
// after all that can happen has happened to it.
func TestDeployMetrics(t *testing.T) {
	redis := startRedis(t)
	a := start(t, "a", redis.address(), nil, "--takeover-delay", "0")
	a.until("/leader", http.StatusOK)
	poll := `{"kind":"tcp","target":"127.0.0.1:1","intervalMs":90000}`
	if code, _, body := a.do("PUT", "/v1/polls/p", poll); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	waitFor(t, "the poll has run", func() bool {
		code, _, _ := a.do("POST", "/v1/polls/p/run", `{"epoch": 1}`)
		return code == http.StatusOK
	})
	if code, _, body := a.do("POST", "/v1/elections/coordinator/step-down", `{"epoch": 1}`); code != http.StatusOK {
		t.Fatal(code, body)
	}
	a.until("/leader", http.StatusOK)

	wanted := map[string]string{}
	for _, m := range regexp.MustCompile(`regent_\w+`).FindAllString(deployed(t, "alerts.yml"), -1) {
		wanted[m] = "alerts.yml"
	}
	for title, queries := range dashboardQueries(t) {
		for _, m := range regexp.MustCompile(`regent_\w+`).FindAllString(strings.Join(queries, " "), -1) {
			wanted[m] = title
		}
	}

	var missing []string
	waitFor(t, "a node that leads again exposes all metrics", func() bool {
		exposed := a.text("/metrics")
		missing = missing[:0]
		for name, where := range wanted {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(exposed) {
				missing = append(missing, name+" of "+where)
			}
		}
		slices.Sort(missing)
		t.Log(missing)
		return len(missing) == 0
	})
}
