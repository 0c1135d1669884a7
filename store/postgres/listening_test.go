package postgres

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// deaf stands between a store and the shared server. A connection that has sent LISTEN while it is armed goes on
// without its server, which is gone without a word: nothing is delivered, and nothing is closed.
type deaf struct {
	addr  string
	armed atomic.Bool
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })

	d := &deaf{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", shared.Addr())
			if err != nil {
				c.Close()
				continue
			}
			go d.pass(up, c)
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return d
}

// pass passes on what a client sends.
func (d *deaf) pass(up, c net.Conn) {
	defer up.Close()
	b := make([]byte, 16<<10)
	for lost := false; ; {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if d.armed.Load() && bytes.Contains(b[:n], []byte("LISTEN")) {
			d.armed.Store(false)
			lost = true
		}
		if lost {
			continue
		}
		if _, err := up.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestListenUnanswered loses the server of the listening connection at the moment at which another register is
// followed. All other connections work, so the store listens over another one soon.
func TestListenUnanswered(t *testing.T) {
	d := newDeaf(t)
	url := strings.Replace(shared.URL(), shared.Addr(), d.addr, 1)
	s := storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: newTable(t)}))
	first := s.Subscribe(t.Context(), driver.Names("first"))
	<-first // it listens

	d.armed.Store(true)
	woken := s.Subscribe(t.Context(), driver.Names("probe"))
	listens(t, s, woken)
}
