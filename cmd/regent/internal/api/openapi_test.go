package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/memstore"
)

// TestContractIsServed asks for the document, and for the page, which has paths of it too.
func TestContractIsServed(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	want, err := api.Document("test")
	if err != nil {
		t.Fatal(err)
	}

	var document map[string]any
	if err := json.Unmarshal(want, &document); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/page/app.js"} {
		if got, _ := a.ask("GET", path, ""); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got, body := a.ask("GET", "/v1/openapi.json", ""); got != 200 || !reflect.DeepEqual(body, document) {
		t.Errorf("%d %v", got, body)
	}
}

// TestContractHasEachRoute compares the paths of the document with the routes that docs/HTTP.md lists, and that a house
// test compares with the code.
func TestContractHasEachRoute(t *testing.T) {
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}

	var paths []string
	for path, methods := range c.operations {
		for method := range methods {
			paths = append(paths, strings.ToUpper(method)+" "+path)
		}
	}

	routes := documentedRoutes(t)
	for i := range routes {
		routes[i] = strings.TrimSuffix(routes[i], "{$}")
	}
	for _, r := range routes {
		if !slices.Contains(paths, r) {
			t.Errorf("openapi.yaml has no %s", r)
		}
	}
	for _, p := range paths {
		if !slices.Contains(routes, p) {
			t.Errorf("openapi.yaml has %s, which is no route", p)
		}
	}
}

// TestContractIsWellFormed checks what OpenAPI demands beyond valid schemas, as far as it concerns this document.
func TestContractIsWellFormed(t *testing.T) {
	text, err := api.Document("test")
	if err != nil {
		t.Fatal(err)
	}

	var d struct {
		Openapi string
		Info    struct{ Title, Version string }
		Tags    []struct{ Name string }
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.Openapi, "3.1.") || d.Info.Title == "" || d.Info.Version != "test" {
		t.Errorf("%s %v", d.Openapi, d.Info)
	}

	type operation struct {
		OperationID, Summary string
		Tags                 []string
		Parameters           []parameter
		Responses            map[string]any
	}
	ids := map[string]bool{}
	for path, item := range d.Paths {
		var shared []parameter
		if item["parameters"] != nil {
			if err := json.Unmarshal(item["parameters"], &shared); err != nil {
				t.Fatal(err)
			}
		}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}

			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			if o.OperationID == "" || ids[o.OperationID] || o.Summary == "" || o.Responses["default"] == nil ||
				len(o.Tags) != 1 || !slices.ContainsFunc(d.Tags, func(t struct{ Name string }) bool {
				return t.Name == o.Tags[0]
			}) {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			ids[o.OperationID] = true
		}
		if names := strings.Count(path, "{"); names != len(shared) {
			t.Errorf("%s has %d names and %d parameters", path, names, len(shared))
		}
	}
}

// parameter is a reference to a parameter, or one by itself.
type parameter struct {
	Ref  string `json:"$ref"`
	Name string
}

// TestContractRefuses checks that the validation finds faults: a field too many, one that is missing, one of another
// type, a status and a path that are not there.
func TestContractRefuses(t *testing.T) {
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}

	good := `{"election":"e","leader":"a","epoch":1,"paused":false}`
	for _, f := range []struct {
		name, method, path string
		status             int
		body               string
		good               bool
	}{
		{"a_good_one", "POST", "/v1/elections/e/pause", 200, good, true},
		{"a_field_too_many", "POST", "/v1/elections/e/pause", 200, strings.Replace(good, "{", `{"x":1,`, 1), false},
		{"a_missing_field", "POST", "/v1/elections/e/pause", 200, strings.Replace(good, `"epoch":1,`, "", 1), false},
		{"another_type", "POST", "/v1/elections/e/pause", 200, strings.Replace(good, ":1", `:"1"`, 1), false},
		{"another_status", "POST", "/v1/elections/e/pause", 202, good, false},
		{"another_path", "GET", "/v1/other", 200, good, false},
		{"an_error_without_a_code", "POST", "/v1/elections/e/pause", 409, `{"error":"x"}`, false},
		{"an_error_with_an_unknown_code", "GET", "/v1/other", 404, `{"code":"x","error":"x"}`, false},
		{"an_error", "GET", "/v1/other", 404, `{"code":"unknown_path","error":"x"}`, true},
	} {
		t.Run(f.name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"application/json"}}
			err := c.check(httptest.NewRequest(f.method, f.path, nil), f.status, header, []byte(f.body))
			if (err == nil) != f.good {
				t.Error(err)
			}
		})
	}
}

// TestMain checks after all tests that each answer of the document was seen.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if all := flag.Lookup("test.run").Value.String() == "" && !testing.Short(); code == 0 && all {
		if missing := unseen(); len(missing) > 0 {
			fmt.Println("FAIL: no test gets these answers of openapi.yaml:\n" + strings.Join(missing, "\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// unseen returns the answers of the document that no test has got, without those of errors in general.
func unseen() []string {
	c, err := theContract()
	if err != nil {
		return []string{err.Error()}
	}

	var missing []string
	for path, methods := range c.operations {
		for method, responses := range methods {
			for status := range responses {
				if name := fmt.Sprintf("%s %s %s", method, path, status); status != "default" && !c.seen[name] {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)

	return missing
}
