package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

// TestHelpListsStores checks that the binary has a driver for every scheme that help names.
func TestHelpListsStores(t *testing.T) {
	_, help := ends(t, command(t, nil, "help", "config"))
	help = strings.Join(strings.Fields(help), " ") // lines are wrapped
	line := regexp.MustCompile(`where the registers are: (.*?)\. `).FindStringSubmatch(help)
	if line == nil || line[1] != strings.Join(config.Schemes(), ", ") {
		t.Fatalf("help says %q", line)
	}

	t.Chdir(t.TempDir()) // for SQLite the address is the name of a file
	for _, scheme := range config.Schemes() {
		store, err := opener(scheme+"127.0.0.1:1", storeUse{}, func(string) {})(t.Context())
		switch {
		case err == nil:
			_ = store.Close()
		case strings.Contains(err.Error(), "no such driver"):
			t.Error(err)
		}
	}

	store, err := opener("sqlite:"+t.TempDir()+"/no/such.db", storeUse{}, func(string) {})(t.Context())
	if store != nil || err == nil {
		t.Errorf("a store that cannot be opened is %v, %v", store, err)
	}

	if _, err := opener("mysql://127.0.0.1", storeUse{}, func(string) {})(t.Context()); err == nil ||
		exitCode(err) != exitConfig {
		t.Errorf("mysql: %v", err)
	}
}
