package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ends runs a command that must end by itself, and returns its exit code and output.
func ends(t *testing.T, cmd *exec.Cmd) (code int, output string) {
	t.Helper()
	stuck := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}

	return cmd.ProcessState.ExitCode(), string(out)
}

// everyStart returns the command lines that use a store: each must refuse a store that cannot work.
func everyStart(t *testing.T, store string, more ...string) map[string][]string {
	run := append([]string{"run", "jobs", "--store", store}, more...)
	return map[string][]string{
		"serve":        serveArgs(t, "a", store, more...),
		"check-config": serveArgs(t, "a", store, append(more, "--check-config")...),
		"run":          append(run, "--", "true"),
	}
}

// TestPermanentStoreErrors starts the real command on stores that cannot work: it must say why, and exit with 78.
func TestPermanentStoreErrors(t *testing.T) {
	r := startRedis(t)
	r.cli("ACL", "SETUSER", "node", "on", ">right", "~*", "&*", "+@all")
	r.cli("ACL", "SETUSER", "reader", "on", ">right", "~*", "&*", "+@read", "+@connection")
	at := "127.0.0.1:" + r.port
	text := filepath.Join(t.TempDir(), "text.db")
	writeFile(t, text, strings.Repeat("no database ", 100))

	for name, c := range map[string]struct{ store, want string }{
		"an_unknown_scheme": {"mysql://host/db",
			`store "mysql://host/db": store must begin with sqlite:, memory:, redis://, rediss://, postgres://, ` +
				`postgresql://, etcd://, nats://, kube:// or s3://`},
		"a_port_that_cannot_be": {"redis://localhost:99999",
			`host "localhost:99999": host must be host or host:port`},
		"an_unknown_option":                  {"redis://" + at + "?color=red", `color "red": color is not known`},
		"a_wrong_password":                   {"redis://node:wrong@" + at, "WRONGPASS"},
		"a_user_without_permissions":         {"redis://reader:right@" + at, `user "reader" lacks permissions`},
		"a_database_that_the_server_has_not": {"redis://" + at + "/9999", "DB index is out of range"},
		"a_missing_directory": {"sqlite:" + t.TempDir() + "/no/such/regent.db",
			"its directory must exist"},
		"an_option_of_a_file": {"sqlite:" + t.TempDir() + "/x.db?banana=1",
			`sqlite: takes a path and no options: leave out "?banana=1"`},
		"a_directory_in_place_of_a_file":       {"sqlite:" + t.TempDir(), "it is a directory"},
		"a_file_that_is_no_database":           {"sqlite:" + text, "it is not a SQLite database"},
		"an_unknown_option_of_a_bucket":        {"s3://bucket?color=red", `color "…": color is not known`},
		"a_bucket_without_a_region":            {"s3://bucket", `region "": region must be given in the address`},
		"a_secret_in_the_address_of_a_bucket":  {"s3://key:wrong@bucket", "credentials come from AWS_ACCESS_KEY_ID"},
		"a_certificate_file_that_is_not_there": {"rediss://" + at + "?ca=/no/such.pem", "/no/such.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			for way, args := range everyStart(t, c.store) {
				code, out := ends(t, command(t, nil, args...))
				if code != exitConfig || !strings.Contains(out, c.want) || strings.Contains(out, "wrong@") {
					t.Errorf("%s: exit code %d, want 78 and %q in\n%s", way, code, c.want, out)
				}
			}
		})
	}
}

// TestTemporaryStoreErrors starts nodes on stores that are away: they wait, and --check-config says so.
func TestTemporaryStoreErrors(t *testing.T) {
	r := newRedis(t)
	code, out := ends(t, command(t, nil, serveArgs(t, "a", r.address(), "--check-config")...))
	if code != 0 || !strings.Contains(out, "warning: store could not be checked") ||
		!strings.Contains(out, "connection refused") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	a := start(t, "a", r.address(), nil)
	a.await("msg=\"store unreachable\".*connection refused")
	r.start()
	a.until("/leader", http.StatusOK)

	t.Run("a_server_that_takes_no_writes_for_now_is_waited_for", func(t *testing.T) {
		r := startRedis(t)
		r.cli("CONFIG", "SET", "min-replicas-to-write", "1")
		b := start(t, "b", r.address(), nil)
		b.await("msg=\"store unreachable\".*NOREPLICAS")
		r.cli("CONFIG", "SET", "min-replicas-to-write", "0")
		b.until("/leader", http.StatusOK)
	})

	t.Run("check_config_creates_no_database", func(t *testing.T) {
		dir := t.TempDir()
		if code, out := ends(t, command(t, nil,
			serveArgs(t, "a", "sqlite:"+dir+"/regent.db", "--check-config")...)); code != 0 {
			t.Errorf("exit code %d:\n%s", code, out)
		}

		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("it left %v", files)
		}
	})
}

func TestCollidingKeys(t *testing.T) {
	r := startRedis(t)
	r.cli("RPUSH", "jobs", "a list of the user's")
	r.cli("SET", "plain", "a string of the user's")

	for name, c := range map[string]struct{ store, want string }{
		"an_election_that_is_a_key_of_the_users": {r.address(),
			"the key jobs holds another program's data (WRONGTYPE)"},
		"a_register_that_is_a_key_of_the_users": {r.address() + "?prefix=mine:", "the key {mine:jobs}:regent holds"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.store, "prefix") {
				r.cli("RPUSH", "{mine:jobs}:regent", "another")
			}
			for way, args := range everyStart(t, c.store, "--election", "jobs") {
				code, out := ends(t, command(t, nil, args...))
				if code != exitConfig || !strings.Contains(out, c.want) || !strings.Contains(out, "?prefix=NAME") {
					t.Errorf("%s: exit code %d, want 78 and %q in\n%s", way, code, c.want, out)
				}
			}
		})
	}

	t.Run("a_string_that_never_expires_is_warned_of", func(t *testing.T) {
		a := start(t, "a", r.address(), nil, "--election", "plain")
		a.await(`msg="store warning".*the key plain holds .*without an expiry.*prefix=NAME`)
	})

	t.Run("a_prefix_helps", func(t *testing.T) {
		start(t, "a", r.address()+"?prefix=regent-", nil, "--election", "jobs").until("/leader", http.StatusOK)
	})
}

// TestStoreIsNamed starts two nodes in two directories without --store. Each warns which store it uses.
func TestStoreIsNamed(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}

	cmd := command(t, nil, "serve", "--node", "a", "--listen", "127.0.0.1:0", "--data-dir", dir)
	cmd.Dir = dir
	a := launch(t, "a", cmd, nil)
	a.serves()
	a.await("level=WARN.*store was not named, so it is sqlite:" + real + "/regent.db")
	a.await("msg=serving.*store=sqlite:" + real + "/regent.db")

	relative := command(t, nil, "run", "jobs", "--store", "sqlite:named.db", "--", "true")
	relative.Dir = dir

	if code, out := ends(t, relative); code != 0 || !strings.Contains(out, "store=sqlite:"+real+"/named.db") ||
		strings.Contains(out, "not named") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	unnamed := command(t, nil, "run", "jobs", "--", "true")
	unnamed.Dir = t.TempDir()

	if _, out := ends(t, unnamed); !strings.Contains(out, "store was not named") {
		t.Error(out)
	}
}

// TestStoreInMemory starts a node on a store in memory, which warns.
func TestStoreInMemory(t *testing.T) {
	const warning = "store memory: is for this process alone"
	start(t, "a", "memory:", nil).await(`level=WARN msg="` + warning)
	_, out := ends(t, command(t, nil, "run", "jobs", "--store", "memory:", "--", "true"))
	if !strings.Contains(out, warning) {
		t.Errorf("run says only\n%s", out)
	}

	if _, help := ends(t, command(t, nil, "help", "config")); !strings.Contains(help,
		"memory: is for one process alone") {
		t.Error("help config does not say so")
	}
}
