package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"

	"go.yaml.in/yaml/v3"
)

// contract is the OpenAPI document. It is written by hand.
//
//go:embed openapi.yaml
var contract []byte

// openapi returns the handler of /v1/openapi.json.
func (s *server) openapi() http.HandlerFunc {
	text, _ := document(s.Version) // a test reads the document
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, text) }
}

// document returns the OpenAPI document of a version, as JSON.
func document(version string) (json.RawMessage, error) {
	var all map[string]any
	if err := yaml.Unmarshal(contract, &all); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}

	if info, ok := all["info"].(map[string]any); ok {
		info["version"] = version
	}

	return json.Marshal(all)
}
