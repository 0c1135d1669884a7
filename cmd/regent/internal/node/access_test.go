package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestAWorseFailureIsLogged has a store that cannot be reached, and then refuses the node for good.
func TestAWorseFailureIsLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	a := &access{requests: "writes"}
	now := time.Now()
	for _, err := range []error{
		errors.New("connection refused"), errors.New("connection refused"),
		fmt.Errorf("wrong secret: %w", driver.ErrRefused), fmt.Errorf("wrong secret: %w", driver.ErrRefused),
	} {
		now = now.Add(time.Second)
		a.record(now, err, log)
	}

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "level=ERROR") {
		t.Errorf("the log has\n%s", out.String())
	}
}
