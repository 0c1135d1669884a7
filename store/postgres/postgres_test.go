package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		opts := Options{Table: newTable(t)}
		return func() (driver.Store, error) { return Open(t.Context(), shared.URL(), opts) }
	})
}

func TestStoreOfAPool(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		opts := Options{Table: newTable(t)}
		return func() (driver.Store, error) {
			pool, err := pgxpool.New(t.Context(), shared.URL())
			if err != nil {
				return nil, err
			}
			t.Cleanup(pool.Close)
			s, err := New(t.Context(), pool, opts)
			if err != nil {
				return nil, err
			}
			return &closing{s, pool.Close}, nil
		}
	})
}

func TestStoreOfADB(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		opts := Options{Table: newTable(t)}
		return func() (driver.Store, error) {
			db, err := sql.Open("pgx", shared.URL())
			if err != nil {
				return nil, err
			}
			s, err := NewSQL(t.Context(), db, opts)
			if err != nil {
				return nil, err
			}
			return &closing{s, func() { db.Close() }}, nil
		}
	})
}

// closing is a store whose pool is closed with it: the suite counts goroutines.
type closing struct {
	*Store
	pool func()
}

func (c *closing) Close() error {
	err := c.Store.Close()
	c.pool()
	return err
}

// TestLeastPrivilege checks the statements of docs/STORES.md.
func TestLeastPrivilege(t *testing.T) {
	table := newTable(t)
	schema, err := Schema(table)
	if err != nil {
		t.Fatal(err)
	}
	run(t, schema)
	role := "role_" + table
	run(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { run(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	url := strings.Replace(shared.URL(), "postgres@", role+"@", 1)

	_, err = Open(t.Context(), url, Options{Table: table, NoCreate: true})
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "SELECT, INSERT, UPDATE, DELETE on table") {
		t.Errorf("without privileges: %v", err)
	}

	run(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+" TO "+role)
	s := storetest.Opened[*Store](t)(Open(t.Context(), url, Options{Table: table}))
	woken := s.Subscribe(t.Context(), driver.Prefix("a"))
	l := storetest.Swap(t, s, held("a", "x", 1))
	<-woken
	l.Holder = driver.Identity{}
	l = storetest.Swap(t, s, l)
	if err := s.Remove(t.Context(), l); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	other := newTable(t)
	run(t, "CREATE TABLE "+other+" (name text)")
	for _, c := range []struct{ name, addr, want string }{
		{"another_scheme", "mysql://x", "postgres://…"},
		{"a_bad_table", shared.URL("table=x%20y"), `table "x y": it must be a name`},
		{"a_missing_database", strings.Replace(shared.URL(), "/postgres?", "/none?", 1),
			`database "none" does not exist`},
		{"a_table_of_others", shared.URL("table=" + other), "it is not Regent's"},
		{"a_missing_database_of_a_server_without_TLS", strings.NewReplacer("/postgres?", "/none?", "disable", "prefer").
			Replace(shared.URL()), `database "none" does not exist`},
		{"an_unknown_option", shared.URL("banana=1"), `unrecognized configuration parameter "banana"`},
		{"a_table_given_twice", "postgres://u:s3cret@h/d?table=a&table=b", "table must be given once"},
		{"a_bad_sslmode", "postgres://u:s3cret@h/d?sslmode=maybe", `sslmode "maybe": sslmode must be disable, allow`},
		{"a_pool_without_connections", "postgres://u:s3cret@h/d?pool_max_conns=0",
			`pool_max_conns "0": pool_max_conns must be a number, 1 or more`},
		{"a_pool_of_no_number", "postgres://u:s3cret@h/d?pool_max_conns=many", `pool_max_conns "many"`},
		{"a_bad_timeout", "postgres://u:s3cret@h/d?connect_timeout=-1", `connect_timeout "-1"`},
		{"a_bad_mode", "postgres://u:s3cret@h/d?default_query_exec_mode=foo", `default_query_exec_mode "foo"`},
		{"a_bad_kind_of_session", "postgres://u:s3cret@h/d?target_session_attrs=foo", `target_session_attrs "foo"`},
		{"a_bad_port", "postgres://u:s3cret@h:99999999/d", "invalid port"},
		{"a_user_without_a_host", "postgres://u:s3cret/d", "invalid port"},
		{"a_quote_that_is_not_closed", "host=h password='a s3cret sslmode=disable", "unterminated quoted string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.addr, Options{})
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want ErrRefused with %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in the error: %v", err)
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\n\t") || strings.Contains(err.Error(), "tls error")) {
				t.Errorf("the error has more than one line, or names TLS: %q", err)
			}
		})
	}

	_, err := Open(t.Context(), shared.URL(), Options{Table: "t_missing", NoCreate: true})
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "there is no table t_missing") {
		t.Errorf("NoCreate without a table: %v", err)
	}
}

// TestAddress checks what is taken out of an address and what is put in.
func TestAddress(t *testing.T) {
	cfg, opts, err := parseAddress("postgres://u:p@h1:1,h2:2/d?table=app.locks&sslmode=disable", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Table != "app.locks" || cfg.ConnConfig.RuntimeParams["table"] != "" {
		t.Errorf("table %q, sent to the server: %q", opts.Table, cfg.ConnConfig.RuntimeParams["table"])
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		t.Error("a replica would be accepted")
	}
	for idle, want := range map[time.Duration]bool{20 * time.Second: false, time.Hour: true} {
		if got := cfg.ShouldPing(t.Context(), pgxpool.ShouldPingParams{IdleDuration: idle}); got != want {
			t.Errorf("a connection that was idle for %v is pinged before a request: %v, want %v", idle, got, want)
		}
	}
	if got, want := describe(cfg.ConnConfig), "postgres://h1:1,h2:2/d"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	if got, want := Redact("postgres://u:p@h1:1,h2:2/d?password=x"), "postgres://***@h1:1,h2:2/d"; got != want {
		t.Errorf("redacted as %s, want %s", got, want)
	}
	for _, addr := range []string{"postgres://u:ZZ?ZZ@h/d", "postgres://u:Z/Z#Z@Z@h/d?x=y", "host=h password=ZZ",
		"postgres://u:ZZ/d"} {
		if got := Redact(addr); strings.Contains(got, "Z") {
			t.Errorf("%s is redacted as %s", addr, got)
		}
	}
	for _, addr := range []string{"postgres://h:1/d", "postgres://[::1]:5432,h2/d", "postgres://[fe80::a]/d"} {
		if got := Redact(addr); got != addr {
			t.Errorf("%s is redacted as %s, which has no secret", addr, got)
		}
	}
	if _, opts, err = parseAddress("host=h user=u table=locks", Options{}); err != nil || opts.Table != "locks" {
		t.Errorf("key=value: table %q, %v", opts.Table, err)
	}
}

// TestCreatedAtOnce opens many stores on an empty database: all of them create the table.
// TestUnreachableServerIsNamedOnce opens a port that nobody listens on. With sslmode=prefer, pgx tries it twice.
func TestUnreachableServerIsNamedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()

	_, err = Open(t.Context(), "postgres://u:hush@"+at+"/d", Options{})
	if err == nil || strings.Count(err.Error(), "postgres://") != 1 ||
		strings.Count(err.Error(), "connection refused") != 1 || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

func TestCreatedAtOnce(t *testing.T) {
	table := newTable(t)
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			s, err := Open(t.Context(), shared.URL("pool_max_conns=2"), Options{Table: table})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestBatchDoesNotWait swaps many registers while another transaction has locked one of them.
func TestBatchDoesNotWait(t *testing.T) {
	table := newTable(t)
	s := open(t, Options{Table: table})
	var all []driver.Record
	for i := range 20 {
		all = append(all, held(fmt.Sprintf("e%02d", i), "x", 1))
	}
	for i, o := range s.SwapAll(t.Context(), all) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		all[i] = o.Record
	}

	locker := connect(t, shared.URL())
	tx, err := locker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+table+" WHERE name = 'e07' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}

	for i := range all {
		all[i].Nonce++
	}
	conflicting := all[3]
	conflicting.Rev = "none"
	all[3] = conflicting

	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for i, o := range s.SwapAll(ctx, all) {
		switch i {
		case 3:
			if !errors.Is(o.Err, driver.ErrConflict) {
				t.Errorf("a swap of another revision: %v", o.Err)
			}
		case 7:
			if o.Err == nil || errors.Is(o.Err, driver.ErrConflict) {
				t.Errorf("the locked register: %v, want an unknown outcome", o.Err)
			}
		default:
			if o.Err != nil {
				t.Errorf("register %d: %v", i, o.Err)
			}
		}
	}

	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), all[7]); err != nil {
		t.Errorf("after the lock: %v", err)
	}
}

// TestForgedNotification sends notifications as another user of the database could.
func TestForgedNotification(t *testing.T) {
	table := newTable(t)
	s := open(t, Options{Table: table})
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	<-woken // it listens

	l := held("a", "x", 1)
	l.Holder = driver.Identity{}
	l = storetest.Swap(t, s, l)
	if got := <-woken; got.Rev != l.Rev || got.Epoch != 1 {
		t.Fatalf("notified of %+v, want the vacant record at %s", got, l.Rev)
	}

	forged := held("a", "x", 99)
	forged.Holder = driver.Identity{}
	send := func(message string) {
		run(t, "SELECT pg_notify($1, $2)", channelOf(table), message)
	}
	send("a\n" + l.Rev + "\n" + string(forged.AppendJSON(nil)))
	if got := <-woken; got.Rev != "" || got.Name != "a" {
		t.Errorf("a forged record was believed: %+v", got)
	}

	send("\x01\n")
	send(proof + "of nobody")
	send("b")
	if got := <-woken; got.Name != "b" {
		t.Errorf("notified of %+v, want b", got)
	}
}

// TestPoolerSwallows listens where nothing arrives.
func TestPoolerSwallows(t *testing.T) {
	warned := make(chan string, 10)
	s := open(t, Options{Table: newTable(t), OnWarning: func(w string) { warned <- w }})
	if got := <-warned; !strings.Contains(got, "fsync is off") { // so are all servers of these tests
		t.Errorf("warned of %q", got)
	}
	s.sql.notify = "SELECT $1::text || $2::text" // as if the notification went to another connection
	s.Subscribe(t.Context(), driver.Prefix(""))
	if got := <-warned; !strings.Contains(got, "pooler") {
		t.Errorf("warned of %q", got)
	}
}

// TestCannotListen reports a connection that cannot listen, although all requests succeed.
func TestCannotListen(t *testing.T) {
	warned := make(chan string, 10)
	s := open(t, Options{Table: newTable(t), OnWarning: func(w string) { warned <- w }})
	<-warned // fsync is off, on all servers of these tests

	s.sql.notify = "SELECT regent_unknown($1::text, $2::text)"
	s.Subscribe(t.Context(), driver.Prefix(""))
	got := <-warned
	if !strings.Contains(got, "cannot listen") || !strings.Contains(got, "regent_unknown") {
		t.Errorf("warned of %q", got)
	}
	storetest.Swap(t, s, held("a", "x", 1))
}

// TestList checks prefixes that end where names are hard to order.
func TestList(t *testing.T) {
	s := open(t, Options{Table: newTable(t)})
	names := []string{"a", "a/", "a/b", "a0", "aé", "aéz", "a\U0010ffff", "a\U0010ffffz", "b", "A", "ä"}
	for _, n := range names {
		storetest.Swap(t, s, held(n, "x", 1))
	}
	for _, prefix := range []string{"", "a", "a/", "aé", "a\U0010ffff", "b", "zz"} {
		var want []string
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				want = append(want, n)
			}
		}
		got := storetest.Names(t, s, prefix)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) yields %q, want %q", prefix, got, want)
		}
	}
}
