package api

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

// schemaTypes are the Go types of the schemas. Those that have none are checked by answers alone.
var schemaTypes = map[string]any{
	"Health": node.Health{}, "StoreHealth": node.StoreHealth{}, "Difference": node.Difference{}, "Status": Status{},
	"Why": elections.Why{}, "ClusterSummary": Cluster{}, "Cluster": health.Cluster{}, "Counts": health.Counts{},
	"Member": health.Member{}, "ElectionList": elections.Answer{}, "Election": elections.Election{},
	"Candidate": elections.Candidate{}, "ElectionRecord": Election{}, "Term": driver.Past{}, "VerbRequest": request{},
	"Poll": poll.Answer{}, "Bucket": orchestrate.Bucket{}, "Run": orchestrate.Run{}, "Event": namedEvent{},
	"Figures": Figures{}, "WorkerStats": work.WorkerStats{}, "Duty": regent.DutyState{},
	"Refusal": work.Refusal{}, "HealthCheck": node.CheckHealth{},
	"PollView": struct {
		poll.Answer
		orchestrate.Status
	}{},
}

// untyped are the schemas without a Go type, or with one that is not exported.
var untyped = []string{"Error", "Alive", "ClusterStatus", "History", "VerbDone", "PollList", "PollDefinition",
	"Receipt"}

// schemas returns the schemas of the document, without allOf.
func schemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := document("test")
	if err != nil {
		t.Fatal(err)
	}

	var d struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}

	all := d.Components.Schemas
	for _, s := range all {
		parts, _ := s["allOf"].([]any)
		if parts == nil {
			continue
		}

		properties := map[string]any{}
		var required []any
		for _, part := range parts {
			p := part.(map[string]any)
			if ref, ok := p["$ref"].(string); ok {
				p = all[strings.TrimPrefix(ref, "#/components/schemas/")]
			}
			maps.Copy(properties, p["properties"].(map[string]any))
			required = append(required, p["required"].([]any)...)
		}
		s["properties"] = properties
		s["required"] = required
	}

	return all
}

// jsonFields returns the names under which the fields of a struct are in JSON, and those that are always there.
func jsonFields(of reflect.Type) (names, always []string) {
	for f := range of.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			n, a := jsonFields(f.Type)
			names = append(names, n...)
			always = append(always, a...)
		case tag == "-" || !f.IsExported():
		default:
			names = append(names, tag)
			if options == "" {
				always = append(always, tag)
			}
		}
	}

	return names, always
}

func TestSchemasAreTheTypes(t *testing.T) {
	all := schemas(t)
	for name := range all {
		if schemaTypes[name] == nil && !slices.Contains(untyped, name) {
			t.Errorf("schema %s is of no type", name)
		}
	}

	for name, example := range schemaTypes {
		s := all[name]
		if s == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}

		names, always := jsonFields(reflect.TypeOf(example))
		if name == "VerbRequest" {
			always = []string{"epoch"} // a body without it is refused
		}

		properties, _ := s["properties"].(map[string]any)
		same(t, name+" has", slices.Collect(maps.Keys(properties)), names)

		var required []string
		for _, r := range s["required"].([]any) {
			required = append(required, r.(string))
		}
		same(t, name+" always has", required, always)
	}
}

// same compares two lists, in any order.
func same(t *testing.T, what string, document, code []string) {
	t.Helper()
	for _, n := range document {
		if !slices.Contains(code, n) {
			t.Errorf("%s %s in openapi.yaml, and not in the code", what, n)
		}
	}
	for _, n := range code {
		if !slices.Contains(document, n) {
			t.Errorf("%s %s in the code, and not in openapi.yaml", what, n)
		}
	}
}

func TestContractHasEachCode(t *testing.T) {
	source, err := os.ReadFile("answer.go")
	if err != nil {
		t.Fatal(err)
	}

	var code, document []string
	for _, m := range regexp.MustCompile(`Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		code = append(code, m[1])
	}
	properties := schemas(t)["Error"]["properties"].(map[string]any)
	for _, c := range properties["code"].(map[string]any)["enum"].([]any) {
		document = append(document, c.(string))
	}
	same(t, "Error.code", document, code)
}
