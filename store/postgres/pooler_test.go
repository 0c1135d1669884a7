package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/regentd/regent/storetest"
)

// newPooler stands between a store and the shared server. It refuses connections with a parameter other than those that
// PgBouncer knows, in the words of PgBouncer.
func newPooler(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pool(c)
		}
	}()
	return l.Addr().String()
}

func pool(c net.Conn) {
	defer c.Close()
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return
	}
	first := make([]byte, binary.BigEndian.Uint32(size)-4)
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	for _, key := range []string{"lock_timeout", "default_transaction_isolation"} {
		if bytes.Contains(first, []byte(key+"\x00")) {
			refusal, _ := (&pgproto3.ErrorResponse{
				Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + key,
			}).Encode(nil)
			_, _ = c.Write(refusal)
			return
		}
	}

	up, err := net.Dial("tcp", shared.Addr())
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = up.Write(append(size, first...))
	go func() {
		_, _ = io.Copy(c, up)
		c.Close()
	}()
	_, _ = io.Copy(up, c)
}

// TestPoolerRefusesParameters opens a store through a pooler that does not take all parameters of a session.
func TestPoolerRefusesParameters(t *testing.T) {
	url := strings.Replace(shared.URL(), shared.Addr(), newPooler(t), 1)
	var warned []string
	opts := Options{Table: newTable(t), OnWarning: func(w string) { warned = append(warned, w) }}
	s := storetest.Opened[*Store](t)(Open(t.Context(), url, opts))
	storetest.Swap(t, s, held("a", "x", 1))
	all := strings.Join(warned, "; ")
	if !strings.Contains(all, "a pooler does not take default_transaction_isolation and lock_timeout") {
		t.Errorf("warned of %q", all)
	}

	// What the address itself says is not left out.
	opts.Table = newTable(t)
	if _, err := Open(t.Context(), url+"&lock_timeout=2s", opts); err == nil ||
		!strings.Contains(err.Error(), "unsupported startup parameter: lock_timeout") {
		t.Errorf("Open with a parameter that the pooler does not take: %v", err)
	}
}
