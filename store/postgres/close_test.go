package postgres

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// TestCloseWhileTheServerHangs closes a store whose requests have gone unanswered.
func TestCloseWhileTheServerHangs(t *testing.T) {
	p := newSilence(t, shared.Addr())
	s, err := Open(t.Context(), p.url(shared), Options{Table: newTable(t)})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))

	p.silent.Store(true)
	unknown(t, s, l)
	began := time.Now()
	s.Close()
	if took := time.Since(began); took >= 15*time.Second { // which is how long pgx tries to cancel a request
		t.Errorf("Close took %v", took)
	}
}
