package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const before, after = "the-token-before-the-signal", "the-token-after-the-signal"
	token := writeFile(t, filepath.Join(dir, "token"), before+"\n")
	text := fmt.Sprintf("tokenFile: %s\n", token)
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), text+"logLevel: info\n")
	d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), nil, "--config", config)
	d.until("/leader", 200)

	t.Run("SIGHUP_takes_in_a_new_token_and_a_new_log_level_and_goes_on_leading", func(t *testing.T) {
		writeFile(t, token, after+"\n")
		writeFile(t, config, text+"logLevel: debug\n")

		if got := d.verb(before); got != 200 {
			t.Errorf("before the signal, the former token: %d", got)
		}
		d.signal(syscall.SIGHUP)
		d.await(`msg="configuration reloaded" logLevel=DEBUG newToken=true`)

		if got := d.verb(before); got != 401 {
			t.Errorf("the former token: %d", got)
		}
		if got := d.verb(after); got != 200 {
			t.Errorf("the new token: %d", got)
		}

		d.await("level=DEBUG")
		if code, body := d.get("/leader"); code != 200 || body["epoch"] != 1.0 {
			t.Errorf("%d %v", code, body)
		}
	})

	t.Run("a_configuration_that_is_wrong_changes_nothing", func(t *testing.T) {
		writeFile(t, token, "")
		writeFile(t, config, text+"logLevel: loud\n")
		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="configuration cannot be reloaded: the former one stays in use" error=.*logLevel`)

		if got := d.verb(after); got != 200 {
			t.Errorf("%d", got)
		}
	})

	t.Run("keys_that_need_a_restart_are_named", func(t *testing.T) {
		writeFile(t, token, after+"\n")
		writeFile(t, config, text+"leaseDuration: 9s\nduties: {x: {command: [sleep, '9']}}\n")
		d.signal(syscall.SIGHUP)
		d.await(`take effect at a restart" keys=leaseDuration,workerTimeout,duties`)
	})

	t.Run("many_signals_at_once_do_not_end_it_and_a_stop_still_releases", func(t *testing.T) {
		for range 50 {
			d.signal(syscall.SIGHUP)
		}
		if code, body := d.get("/leader"); code != 200 || body["epoch"] != 1.0 {
			t.Errorf("%d %v", code, body)
		}

		d.signal(syscall.SIGTERM)
		d.signal(syscall.SIGHUP)

		if code := d.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if len(d.said(`msg=stopped`)) != 1 {
			t.Error("it did not stop in order")
		}
	})
}

// TestReloadKeepsTheToken removes the token from the configuration, and reloads.
func TestReloadKeepsTheToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const token = "the-token-that-must-stay"
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), "token: "+token+"\n")
	d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), nil, "--config", config)
	d.until("/leader", 200)

	writeFile(t, config, "")
	d.signal(syscall.SIGHUP)
	d.await(`level=WARN msg="configuration cannot be reloaded: .*restart.* key=token$|level=INFO msg="configuration ` +
		`reloaded"`)

	if got := d.verb(""); got != 401 {
		t.Errorf("without a token: %d", got)
	}
	if got := d.verb(token); got != 200 {
		t.Errorf("the token: %d", got)
	}

	t.Run("a_pipe_in_place_of_the_file_is_not_waited_for", func(t *testing.T) {
		if err := os.Remove(config); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(config, 0o600); err != nil {
			t.Fatal(err)
		}

		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="configuration cannot be reloaded.*is a named pipe`)
	})

	if len(d.said(`never switches authentication off.* key=token$`)) != 1 {
		t.Error("nothing was said")
	}
}

// TestSIGHUPWhileStarting sends signals from the very beginning, while the store is not there.
func TestSIGHUPWhileStarting(t *testing.T) {
	t.Parallel()
	d := start(t, "a", "redis://127.0.0.1:1", nil)
	d.signal(syscall.SIGHUP)
	d.await("configuration reloaded")

	select {
	case <-d.gone:
		t.Error("it ended")
	default:
	}
}
