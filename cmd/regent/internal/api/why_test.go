package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestWhy(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)

	first := a.becomes("/v1/status?local=1",
		func(b map[string]any) bool { return b["why"] != nil })["why"].(map[string]any)
	if first["reason"] != "first" || first["text"] != "nobody has led before" || first["previous"] != "" {
		t.Errorf("the first term: %v", first)
	}
	if _, there := first["vacantMs"]; there {
		t.Errorf("the first term: %v", first)
	}

	// Its companion process proves it dead.
	b := serve(t, store, "b", "")
	b.until("/standby", 200)

	l, err := store.Get(t.Context(), driver.MemberRegister("a"))
	if err == nil {
		err = regent.Reap(t.Context(), store, l.Name, l.Holder)
	}
	if err != nil {
		t.Fatal(err)
	}

	status := b.becomes("/v1/status?local=1",
		func(b map[string]any) bool { return b["epoch"] == 2.0 && b["leader"] != "" })
	was := status["why"].(map[string]any)
	text, _ := was["text"].(string)
	if was["previous"] != "a" || was["reason"] != "died" ||
		!strings.HasPrefix(text, "the process of a died; nobody led for ") {
		t.Errorf("%v", was)
	}

	if ms, ok := was["vacantMs"].(float64); !ok || ms < 0 || ms > float64(time.Minute.Milliseconds()) {
		t.Errorf("%v", was)
	}
}
