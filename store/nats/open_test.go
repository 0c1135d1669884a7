package nats

import (
	"crypto/tls"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

func TestAddress(t *testing.T) {
	const addr = "nats://u%40x:p%2Fq@h1,h2:9,[::1]:7,[::2],::3/APP_1?tls=true&replicas=3&domain=hub"
	a, err := parseAddress(addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"h1:4222", "h2:9", "[::1]:7", "[::2]:4222", "[::3]:4222"}
	if !slices.Equal(a.servers, want) || a.user != "u@x" || a.password != "p/q" || a.stream != "APP_1" ||
		a.tls == nil || a.replicas != 3 || a.api("X") != "$JS.hub.API.X" {
		t.Errorf("parsed %+v", a)
	}
	if got, want := a.String(), "nats://h1:4222,h2:9,[::1]:7,[::2]:4222,[::3]:4222/APP_1"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	for given, want := range map[string]string{
		"nats://u:p@h1,h2/APP?creds=x": "nats://***@h1,h2/APP", "nats://t0ken@h": "nats://***@h",
		"nats://u:p?x@h": "nats://***@h", "other://u:p@h": "nats://…",
	} {
		if got := Redact(given); got != want {
			t.Errorf("redacted as %s, want %s", got, want)
		}
	}

	opts := Options{TLS: &tls.Config{ServerName: "x"}}
	a, err = parseAddress("nats://t0ken@h?apiPrefix=js.acc&inbox=_INBOX_app", opts)
	if err != nil || a.token != "t0ken" || a.stream != DefaultStream || a.tls == nil || a.api("X") != "js.acc.X" {
		t.Errorf("parsed %+v, %v", a, err)
	}
}

func TestBadAddresses(t *testing.T) {
	for _, c := range []struct{ name, addr, want string }{
		{"another_scheme", "mysql://u:s3cret@h", "must begin with nats://"},
		{"no_host", "nats://", `host ""`},
		{"an_empty_host", "nats://a,,b", `host ""`},
		{"a_bad_port", "nats://u:s3cret@h:99999", `host "h:99999": host must be host or host:port`},
		{"a_bad_stream", "nats://u:s3cret@h/a.b", `stream "a.b": stream must be 1 to 64 letters`},
		{"an_unknown_key", "nats://h?password=s3cret", "password ***: password is not known: the keys are tls"},
		{"a_key_twice", "nats://h?tls=true&tls=true", "must be given once"},
		{"an_empty_key", "nats://h?ca=", `ca "": ca must not be empty`},
		{"tls_maybe", "nats://h?tls=maybe", `tls "maybe": tls must be true or false`},
		{"tls_off_with_a_ca", "nats://h?tls=false&ca=x", "must be true with ca"},
		{"a_certificate_without_its_key", "nats://h?cert=x", "must be given both or not at all"},
		{"a_missing_ca", "nats://h?ca=no-such-file", "no-such-file"},
		{"missing_credentials", "nats://h?creds=no-such-file", "no-such-file"},
		{"credentials_and_a_user", "nats://u:s3cret@h?creds=x", "must not be given with a user or a token"},
		{"two_replicas", "nats://h?replicas=2", `replicas "2": replicas must be 1, 3 or 5`},
		{"a_domain_of_two_tokens", "nats://h?domain=a.b", "must be one token"},
		{"a_domain_and_a_prefix", "nats://h?domain=a&apiPrefix=b", "must not be given both"},
		{"a_wildcard_in_a_prefix", "nats://h?inbox=a.*", "without * and >"},
		{"an_unescaped_password", "nats://u:s3/cret@h", "percent-encoded"},
		{"a_fragment", "nats://u:s3cret@h/x#y", "percent-encoded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, opened := Open(t.Context(), c.addr, Options{})
			for _, err := range []error{opened, Validate(c.addr)} {
				if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "cret") {
					t.Errorf("%v, want ErrRefused with %q", err, c.want)
				}
			}
		})
	}
}

// users is the configuration of a server with users, as docs/STORES.md says.
const users = `
authorization {
  users: [
    { user: "root", password: "r00t" }
    { user: "regent", password: "s3cret", permissions: {
      publish: ["REGENT.r.>", "REGENT.b", "$JS.API.STREAM.INFO.REGENT", "$JS.API.DIRECT.GET.REGENT",
        "$JS.API.STREAM.MSG.DELETE.REGENT"]
      subscribe: ["REGENT.c.>", "_INBOX.>", "$JS.EVENT.ADVISORY.STREAM.*.REGENT"]
    } }
    { user: "reader", password: "s3cret", permissions: {
      publish: ["REGENT.b", "$JS.API.STREAM.INFO.REGENT", "$JS.API.DIRECT.GET.REGENT"]
      subscribe: ["_INBOX.>"]
    } }
  ]
}
`

func TestUsers(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, users)
	addr := func(user string) string { return strings.Replace(natstest.Address(all, ""), "://", "://"+user, 1) }
	refused := func(name, addr, want string) {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), addr, Options{})
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("Open: %v, want ErrRefused with %q", err, want)
			}
		})
	}

	refused("no_user", addr(""), "Authorization Violation")
	refused("a_wrong_password", addr("regent:wr0ng-s3cret@"), "Authorization Violation")
	refused("a_user_who_may_not_create_the_stream", addr("regent:s3cret@"), "STREAM.CREATE.REGENT")
	open(t, addr("root:r00t@"))
	refused("a_user_who_may_only_read", addr("reader:s3cret@"), `"REGENT.r.regent.probe"`)

	s := open(t, addr("regent:s3cret@"))
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	drivertest.Listens(t, s, woken)

	t.Run("a_reader_reads", func(t *testing.T) {
		warned := make(chan string, 10)
		opts := Options{NoProbe: true, OnWarning: func(w string) { warned <- w }}
		r := storetest.Opened[*Store](t)(Open(t.Context(), addr("reader:s3cret@"), opts))
		if w := <-warned; !strings.Contains(w, "has 1 replica") {
			t.Errorf("warned of %q", w)
		}
		if got, err := r.Get(t.Context(), "a"); err != nil || got.Rev != l.Rev {
			t.Errorf("Get: %+v, %v", got, err)
		}
		if _, err := r.Swap(t.Context(), l); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Swap: %v, want ErrRefused", err)
		}
		r.Subscribe(t.Context(), driver.Prefix(""))
		select {
		case w := <-warned:
			if !strings.Contains(w, "polling alone") {
				t.Errorf("warned of %q", w)
			}
		case <-time.After(drivertest.Limit):
			t.Error("no warning that a subscription was refused")
		}
	})

	t.Run("a_register_is_removed", func(t *testing.T) {
		l.Holder = driver.Identity{}
		if err := s.Remove(t.Context(), storetest.Swap(t, s, l)); err != nil {
			t.Error(err)
		}
		info, err := s.stream.Info(t.Context(), jetstream.WithSubjectFilter("REGENT.r.a"))
		if err != nil || len(info.State.Subjects) != 0 {
			t.Errorf("the stream still has %+v, %v", info, err)
		}
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := drivertest.Certificates(t)
	all := servers(t, 1, `tls { cert_file: "`+cert+`", key_file: "`+key+`", ca_file: "`+ca+`", verify: true }`)
	otherCA, _, _ := drivertest.Certificates(t)
	addr := func(pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return natstest.Address(all, "?"+q.Encode())
	}
	storetest.Swap(t, open(t, addr("ca", ca, "cert", cert, "key", key)), held("a", "x", 1))

	for _, c := range []struct{ name, addr, want string }{
		{"a_server_of_another_ca", addr("ca", otherCA, "cert", cert, "key", key), "x509"},
		{"another_server_name", addr("ca", ca, "cert", cert, "key", key, "serverName", "other"), "other"},
		{"no_client_certificate", addr("ca", ca), "connect"},
		{"no_tls", addr("tls", "false"), "x509"}, // the server asks for TLS, so the client speaks it
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.addr, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want %q", err, c.want)
			}
		})
	}

	if _, err := Open(t.Context(), fresh()+"?tls=true", Options{}); !errors.Is(err, driver.ErrRefused) ||
		!strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("Open of a server without TLS: %v", err)
	}
}

// TestStreams opens streams that somebody else has created.
func TestStreams(t *testing.T) {
	type config = jetstream.StreamConfig
	js := plain(t, shared)
	good := func(name string) jetstream.StreamConfig {
		s := &Store{addr: &address{stream: name, replicas: 1}}
		return s.config()
	}
	for name, c := range map[string]struct {
		change  func(*config)
		refused string // or empty
		warning string
	}{
		"as_Open_creates_it":   {func(*config) {}, "", "has 1 replica"},
		"more_per_subject":     {func(c *config) { c.MaxMsgsPerSubject = 5 }, "max_msgs_per_subject", ""},
		"an_age":               {func(c *config) { c.MaxAge = time.Hour }, "max_age", ""},
		"a_limit_of_messages":  {func(c *config) { c.MaxMsgs = 9 }, "discard", ""},
		"a_work_queue":         {func(c *config) { c.Retention = jetstream.WorkQueuePolicy }, "retention", ""},
		"no_acknowledgements":  {func(c *config) { c.NoAck = true }, "no_ack", ""},
		"no_direct_reads":      {func(c *config) { c.AllowDirect = false }, "allow_direct", ""},
		"without_the_barrier":  {func(c *config) { c.Subjects = c.Subjects[:1] }, "subjects", ""},
		"in_memory":            {func(c *config) { c.Storage = jetstream.MemoryStorage }, "", "in memory"},
		"without_republishing": {func(c *config) { c.RePublish = nil }, "", "polling alone"},
		"without_deletes":      {func(c *config) { c.DenyDelete = true }, "", "deny_delete"},
		"lazy": {func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }, "",
			"answers before it writes"},
		"a_limit_that_refuses": {func(c *config) {
			c.MaxMsgs = 9
			c.Discard = jetstream.DiscardNew
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			addr := fresh()
			a, err := parseAddress(addr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cfg := good(a.stream)
			c.change(&cfg)
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}

			var warned []string
			s, err := Open(t.Context(), addr, Options{OnWarning: func(w string) { warned = append(warned, w) }})
			if c.refused != "" {
				if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("Open: %v, want ErrRefused with %q", err, c.refused)
				}
				return
			}
			storetest.Swap(t, storetest.Opened[*Store](t)(s, err), held("a", "x", 1))
			if !strings.Contains(strings.Join(warned, "\n"), c.warning) {
				t.Errorf("warned of %q, want %q", warned, c.warning)
			}
		})
	}

	t.Run("none_for_a_reader", func(t *testing.T) {
		_, err := Open(t.Context(), fresh(), Options{NoProbe: true})
		if !errors.Is(err, ErrNoStream) || !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Open: %v, want ErrNoStream", err)
		}
	})
	t.Run("three_replicas_of_one_server", func(t *testing.T) {
		_, err := Open(t.Context(), fresh()+"?replicas=3", Options{})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "replicas=1") {
			t.Errorf("Open: %v, want ErrRefused", err)
		}
	})
}

// TestNoJetStream opens a store on a server without JetStream, which may be about to start it.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, "jetstream: disabled")
	_, err := Open(drivertest.Short(t), natstest.Address(all, ""), Options{})
	if err == nil || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "JetStream is off") {
		t.Errorf("Open: %v", err)
	}
}

// TestExposedPassword warns of a password or token that anybody on the network can read.
func TestExposedPassword(t *testing.T) {
	for addr, want := range map[string]bool{
		"nats://u:p@10.0.0.1": true, "nats://u:p@localhost,db": true, "nats://t0ken@db": true,
		"nats://u:p@db?tls=true": false, "nats://db": false, "nats://u:p@127.0.0.1,localhost,[::1]": false,
	} {
		a, err := parseAddress(addr, Options{})
		if err != nil || a.exposed() != want {
			t.Errorf("%s: exposed %v, %v", Redact(addr), !want, err)
		}
	}
}
