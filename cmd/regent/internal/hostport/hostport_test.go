package hostport_test

import (
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/hostport"
)

func TestValid(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:7468": true, "[::1]:7468": true, "node-a.example:1": true, "node_a:65535": true,
		"[fe80::1%eth0]:7": true,
		"":                 false, ":7468": false, "host": false, "host:": false, "host:0": false, "host:65536": false,
		"host:http":      false,
		"http://host:80": false, "host:80/x": false, "host:80?x": false, "host:80#x": false, "user@host:80": false,
		"user:pw@host:80": false,
		"host/x:80":       false, "host?x:80": false, "host#:80": false, "a b:80": false, "a\n:80": false,
		`a\b:80`: false,
	} {
		if got := hostport.Valid(addr); got != want {
			t.Errorf("%q: %v", addr, got)
		}
	}
}
