package postgres

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/pgtest"
	"github.com/regentd/regent/storetest"
)

// within is how long a test waits for what must happen.
const within = 3 * time.Minute

// shared is the server that most tests use. Each of them has a table of its own.
var shared *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := pgtest.Dir()
		if err == nil {
			defer os.RemoveAll(dir)
			shared, err = pgtest.Start(dir, "main")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer shared.Stop()
		return m.Run()
	}())
}

// tables counts the tables of this run, so that no two tests share one.
var tables atomic.Int64

// newTable returns the name of a table that is dropped with the test.
func newTable(t testing.TB) string {
	name := "t" + strconv.FormatInt(tables.Add(1), 10)
	t.Cleanup(func() { run(t, "DROP TABLE IF EXISTS "+name) })
	return name
}

// connect opens a plain connection to the shared server.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// run runs a statement on the shared server.
func run(t testing.TB, text string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, shared.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// open opens a store on the shared server.
func open(t testing.TB, opts Options) *Store {
	t.Helper()
	return storetest.Opened[*Store](t)(Open(t.Context(), shared.URL(), opts))
}

// held returns a record that a member holds.
func held(name, id string, epoch uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: id, Incarnation: strings.ToUpper(id) + "1"}, Epoch: epoch, Nonce: epoch,
		Duration: time.Minute,
	}
}

// eventually waits until what is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond) // before it is asked again
	}
}
