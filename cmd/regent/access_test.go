package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandAccess runs commands against nodes that want a token, and nodes with certificates.
func TestCommandAccess(t *testing.T) {
	t.Run("a_token", func(t *testing.T) {
		t.Parallel()
		a := start(t, "node-a", sqliteStore(t), []string{"REGENT_TOKEN=hush-hush-hush-hush"})
		a.until("/leader", 200)
		file := writeFile(t, filepath.Join(t.TempDir(), "token"), "hush-hush-hush-hush\n")

		for _, c := range []struct {
			env  []string
			args []string
			code int
			want string
		}{
			{nil, []string{"status"}, 0, "node-a leads"},
			{nil, []string{"pause", "--yes"}, exitFailure, "give the cluster token with --token-file or REGENT_TOKEN"},
			{nil, []string{"events"}, exitFailure, "give the cluster token with --token-file or REGENT_TOKEN"},
			{[]string{"REGENT_TOKEN=other-other-other"}, []string{"pause", "--yes"}, exitFailure,
				"refused: the token that was sent is not that of the cluster: check --token-file"},
			{nil, []string{"pause", "--yes", "--token-file", file}, 0, "is paused"},
			{[]string{"REGENT_TOKEN=hush-hush-hush-hush"}, []string{"resume"}, 0, "is resumed"},
			{[]string{"REGENT_TOKEN_FILE=" + file}, []string{"events", "--last", "1"}, 0, "node-a"},
			{nil, []string{"pause", "--yes", "--token-file", "/no/such/file"}, exitConfig, "tokenFile"},
		} {
			cmd := command(t, append([]string{"REGENT_ADDR=" + a.url}, c.env...), c.args...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) ||
				strings.Contains(string(out), "hush-hush") {
				t.Errorf("%q %q: exit code %d\n%s", c.env, c.args, code, out)
			}
		}
	})

	t.Run("certificates", func(t *testing.T) {
		t.Parallel()
		ca := newAuthority(t)
		config := ca.issue("node-a")
		a := start(t, "node-a", sqliteStore(t), nil, "--config", config)
		addr := strings.TrimPrefix(a.url, "http://")
		d := &daemon{t: t, name: "node-a", url: "https://" + addr}
		waitFor(t, "it leads", func() bool {
			cmd := command(t, nil, "is-leader", "--addr", d.url, "--tls-ca", ca.file("ca.crt"))
			return cmd.Run() == nil
		})

		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"status", "--addr", addr, "--tls-ca", ca.file("ca.crt")}, 0, "node-a leads"},
			{[]string{"status", "--addr", d.url}, exitUnreachable, "certificate"},
			{[]string{"status", "--addr", addr}, exitFailure, "speaks TLS: name it as https://"},
			{[]string{"pause", "--yes", "--addr", d.url, "--tls-ca", ca.file("ca.crt")}, exitFailure, "refused: "},
			{[]string{"pause", "--yes", "--addr", addr, "--config", config}, 0, "is paused"},
			{[]string{"status", "--addr", d.url, "--tls-ca", "/no/such/file"}, exitConfig, "tlsCA"},
			{[]string{"status", "--addr", d.url, "--tls-cert", ca.file("ca.crt")}, exitConfig, "needs tlsKey"},
		} {
			cmd := command(t, nil, c.args...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("%q: exit code %d\n%s", c.args, code, out)
			}
		}
	})
}
