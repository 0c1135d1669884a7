package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract validates answers of the API by the OpenAPI document that a node serves.
type contract struct {
	operations map[string]map[string]map[string]any // by path, method in lower case and status
	compiler   *jsonschema.Compiler
	mux        *http.ServeMux // finds the path of a request

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by their place in the document
	seen    map[string]bool               // "GET /v1/status 200"
}

// theContract is shared, so that TestMain can say which answers no test has seen.
var theContract = sync.OnceValues(func() (*contract, error) {
	text, err := api.Document("test")
	if err != nil {
		return nil, err
	}
	return newContract(text)
})

// newContract reads a document. In its schemas it allows only the properties that they name: users of the API must
// accept others, but a test should find those that the document lacks.
func newContract(text []byte) (*contract, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}

	document := parsed.(map[string]any)
	components := document["components"].(map[string]any)
	for _, s := range components["schemas"].(map[string]any) {
		forbidOthers(s, components["schemas"].(map[string]any))
	}

	c := &contract{
		compiler: jsonschema.NewCompiler(), mux: http.NewServeMux(), schemas: map[string]*jsonschema.Schema{},
		seen: map[string]bool{}, operations: map[string]map[string]map[string]any{},
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource("openapi.json", document); err != nil {
		return nil, err
	}

	for path, item := range document["paths"].(map[string]any) {
		c.operations[path] = map[string]map[string]any{}
		pattern := path
		if path == "/" {
			pattern = "/{$}" // else it is that of every path
		}
		c.mux.Handle(pattern, http.NotFoundHandler())
		for method, o := range item.(map[string]any) {
			if method != "parameters" {
				c.operations[path][method] = o.(map[string]any)["responses"].(map[string]any)
			}
		}
	}

	return c, nil
}

// forbidOthers makes the schemas of objects closed, unless they say what else they may have.
func forbidOthers(schema any, all map[string]any) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}

	for _, part := range list(s["allOf"]) { // merged: a closed part would refuse the properties of the others
		p := part.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			p = all[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		}
		properties, _ := s["properties"].(map[string]any)
		if properties == nil {
			properties = map[string]any{}
			s["properties"] = properties
		}
		maps.Copy(properties, p["properties"].(map[string]any))
		s["required"] = append(slices.Clone(list(s["required"])), list(p["required"])...)
	}
	delete(s, "allOf")

	if properties, ok := s["properties"].(map[string]any); ok {
		if s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
		for _, p := range properties {
			forbidOthers(p, all)
		}
	}
	forbidOthers(s["items"], all)
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// check validates an answer.
func (c *contract) check(r *http.Request, status int, header http.Header, body []byte) error {
	_, path := c.mux.Handler(r)
	path = strings.TrimSuffix(path, "{$}")
	method := strings.ToLower(r.Method)
	if method == "head" {
		method = "get"
	}

	responses := c.operations[path][method]
	if responses == nil {
		if status < 400 {
			return fmt.Errorf("the document has no %s %s", r.Method, r.URL.Path)
		}
		return c.validate("#/components/schemas/Error", body)
	}

	entry := fmt.Sprint(status)
	if responses[entry] == nil {
		if status < 400 {
			return fmt.Errorf("the document has no status %d for %s %s", status, r.Method, path)
		}
		entry = "default"
	}

	c.mu.Lock()
	c.seen[fmt.Sprintf("%s %s %s", method, path, entry)] = true
	c.mu.Unlock()

	place := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) + "/" +
		method + "/responses/" + entry
	response := responses[entry].(map[string]any)
	if ref, ok := response["$ref"].(string); ok {
		return c.content(header, ref, map[string]any{"application/json": nil}, r.Method, body)
	}

	content, _ := response["content"].(map[string]any)
	if content == nil {
		if len(body) > 0 {
			return fmt.Errorf("%s %s %d has no body in the document, and has %s", r.Method, path, status, body)
		}
		return nil
	}

	return c.content(header, place, content, r.Method, body)
}

// content validates the body by its type.
func (c *contract) content(header http.Header, place string, content map[string]any, method string, body []byte) error {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if _, ok := content[kind]; !ok {
		return fmt.Errorf("the type of the answer is %q, which is not in the document", kind)
	}

	place += "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
	switch {
	case method == http.MethodHead || kind != "application/json" && kind != "text/event-stream":
		return nil
	case kind == "text/event-stream":
		for line := range strings.Lines(string(body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasSuffix(line, "\n") {
				if err := c.validate(place, []byte(data)); err != nil {
					return err
				}
			}
		}
		return nil
	}

	return c.validate(place, body)
}

// validate validates JSON by the schema at a place of the document.
func (c *contract) validate(place string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	schema := c.schemas[place]
	if schema == nil {
		var err error
		if schema, err = c.compiler.Compile("openapi.json" + place); err != nil {
			return err
		}
		c.schemas[place] = schema
	}

	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w\nin %s", err, body)
	}

	return nil
}

// recorder keeps the answer of a handler.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

// validated returns a handler whose answers are validated by the contract.
func validated(t *testing.T, next http.Handler) http.Handler {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record := &recorder{ResponseWriter: w}
		next.ServeHTTP(record, r)
		if record.status == 0 || record.status == http.StatusTeapot { // the client has left; no node answers so
			return
		}
		if err := c.check(r, record.status, w.Header(), record.body.Bytes()); err != nil {
			t.Errorf("%s %s is answered %d, which the contract does not allow: %v", r.Method, r.URL, record.status, err)
		}
	})
}
