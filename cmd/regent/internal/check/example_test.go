package check_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

func Example() {
	ctx := context.Background()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " is ok")
	}))
	defer site.Close()

	outcome, err := new(check.Checker).Run(ctx, "http", site.URL+"/health", map[string]string{"contains": "ok"})
	fmt.Println(outcome.OK, outcome.Detail["status"], err)
	// Output:
	// true 200 <nil>
}
