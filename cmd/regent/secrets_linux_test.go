package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/store/sqlite"
)

// onePoll returns a configuration with one poll, every second.
func onePoll(t *testing.T) string {
	return fmt.Sprintf("polls:\n  p:\n    kind: http\n    target: %s\n    interval: 1s\n", webTarget(t))
}

// TestSecretsOfChildren checks the environment of programs that a node starts.
func TestSecretsOfChildren(t *testing.T) {
	env := []string{"REGENT_TOKEN=hush-the-token-of-all", "REGENT_STORE=redis://ada:hush@cache:6379/0",
		"REGENT_DB_PASSWORD=hush",
		"REGENT_REGION=eu", "APP_TOKEN=the program's own"}
	check := func(t *testing.T, printed string) {
		t.Helper()

		for line := range strings.Lines(printed) {
			if strings.Contains(line, "hush") {
				t.Errorf("the child has %s", line)
			}
		}

		for _, want := range []string{"REGENT_REGION=eu\n", "APP_TOKEN=the program's own\n", "REGENT_EPOCH=1\n"} {
			if !strings.Contains(printed, want) {
				t.Errorf("the child lacks %q: %s", want, printed)
			}
		}
	}

	t.Run("run", func(t *testing.T) {
		store := sqliteStore(t)
		out, err := command(t, env, "run", "seat", "--store", store, "--", "env").Output()
		if err != nil {
			t.Fatal(err)
		}

		check(t, string(out))
	})

	t.Run("a_duty", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "out")
		config := writeFile(t, filepath.Join(dir, "regent.yaml"),
			fmt.Sprintf("duties:\n  mine:\n    command: [sh, -c, 'env > \"$1.new\" && mv \"$1.new\" \"$1\" && sleep "+
				"1000', mine, %q]\n", file))
		d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), env, "--config", config)
		waitFor(t, "the duty prints its environment", func() bool {
			_, err := os.Stat(file)
			return err == nil
		})

		printed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		check(t, string(printed))
		d.stop()
	})
}

// TestStoreThatNamesAnAttacker has a leader with a token, and a member in the store whose address is an attacker's.
func TestStoreThatNamesAnAttacker(t *testing.T) {
	const token = "correct-horse-battery-staple"
	var mu sync.Mutex
	var all bytes.Buffer
	var tasks *http.Request
	var body []byte
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()

		fmt.Fprintf(&all, "%s %s %v %s\n", r.Method, r.RequestURI, r.Header, b)
		if r.Method == "POST" && tasks == nil {
			tasks, body = r, b
		}

		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(attacker.Close)

	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), onePoll(t))
	d := start(t, "a", "sqlite:"+path, []string{"REGENT_TOKEN=" + token}, "--config", config)
	d.until("/leader", 200)

	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	evil := &regent.Member{Store: store, ID: "evil", Addr: attacker.Listener.Addr().String(), Worker: true}
	ctx, cancel := context.WithCancel(t.Context())

	// A member whose address is the path of a verb, which the leader would sign.
	verb := &regent.Member{Store: store, ID: "verb", Addr: evil.Addr + "/v1/elections/coordinator/pause?x=",
		Worker: true}

	var members sync.WaitGroup
	for i, m := range []*regent.Member{evil, verb} {
		members.Go(func() {
			_ = m.Lead(ctx, fmt.Sprint("elsewhere", i), func(ctx context.Context, _ regent.Term) error {
				<-ctx.Done()
				return nil
			})
		})
	}

	defer func() {
		cancel()
		members.Wait()
	}()

	d.await("member=verb")
	waitFor(t, "the leader asks the attacker", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return tasks != nil
	})

	mu.Lock()
	defer mu.Unlock()

	if strings.Contains(all.String(), "/v1/elections") {
		t.Errorf("the leader was led to a verb: %s", all.String())
	}
	if strings.Contains(all.String(), token) {
		t.Errorf("the attacker has the token: %s", all.String())
	}

	for _, uri := range []string{tasks.RequestURI, "/v1/tasks", "/v1/elections/coordinator/step-down"} {
		r, err := http.NewRequestWithContext(t.Context(), tasks.Method, d.url+uri, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		r.Header = tasks.Header.Clone()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}

		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("replayed to %s: %d %s", uri, resp.StatusCode, answer)
		}
	}
}
