package work_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

func TestIntake(t *testing.T) {
	leaks(t)
	ran := newRan()
	w := worker(ran)
	url := serve(t, w)
	many := make([]string, 1025)
	for i := range many {
		many[i] = task(fmt.Sprint("many", i))
	}

	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		fact, path, body string
		code             int
		why              string
	}{
		{"garbage", "", `tasks, please`, 400, ""},
		{"nothing", "", ``, 400, ""},
		{"an_object_that_is_cut_short", "", batch(1, 0, task("a"))[:40], 400, ""},
		{"something_after_the_object", "", batch(1, 0, task("a")) + "x", 400, ""},
		{"a_wrong_type", "", `{"election":"seat","epoch":"one"}`, 400, ""},
		{"an_epoch_below_zero", "", `{"election":"seat","epoch":-1}`, 400, ""},
		{"epoch_zero", "", batch(0, 0, task("a")), 400, ""},
		{"no_tasks", "", batch(1, 0), 400, ""},
		{"no_id", "", batch(1, 0, `{"kind":"do"}`), 400, "invalid"},
		{"a_long_id", "", batch(1, 0, task(long)), 400, "invalid"},
		{"no_kind", "", batch(1, 0, `{"id":"a"}`), 400, "invalid"},
		{"a_long_kind", "", batch(1, 0, fmt.Sprintf(`{"id":"a","kind":%q}`, long)), 400, "invalid"},
		{"a_timeout_below_zero", "", batch(1, 0, `{"id":"a","kind":"do","timeoutMs":-1}`), 400, "invalid"},
		{"a_timeout_beyond_all_bounds", "", batch(1, 0, `{"id":"a","kind":"do","timeoutMs":9223372036854775}`), 400,
			"invalid"},
		{"another_election", "", strings.Replace(batch(1, 0, task("a")), "seat", "other", 1), 400, ""},
		{"too_many_tasks", "", batch(1, 0, many...), 413, ""},
		{"too_large_a_body", "", batch(1, 0,
			fmt.Sprintf(`{"id":"a","kind":"do","payload":%q}`, strings.Repeat("x", 5<<20))), 413, ""},
		{"an_unknown_kind", "", batch(1, 0, `{"id":"a","kind":"undo"}`), 422, "unknown kind"},
		{"a_question_of_garbage", "/results", `?`, 400, ""},
		{"a_question_for_another_election", "/results", `{"election":"other","epoch":1}`, 400, ""},
		{"a_question_of_epoch_zero", "/results", ask(0), 400, ""},
		{"a_question_that_is_too_large", "/results", strings.Repeat(" ", 5<<20), 413, ""},
	} {
		t.Run(c.fact+"_is_refused", func(t *testing.T) {
			r := post(t, url+c.path, c.body)
			r.wants(t, c.code, c.why)
			if r.Error == "" || r.Session == "" {
				t.Errorf("answered %+v", r)
			}
		})
	}

	t.Run("another_method_is_refused", func(t *testing.T) {
		for _, path := range []string{"", "/results"} {
			resp, err := http.Get(url + path)
			check(t, err)
			resp.Body.Close()
			if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
				t.Errorf("answered %d, allowing %q", resp.StatusCode, resp.Header.Get("Allow"))
			}
		}
	})

	t.Run("questions_that_ask_for_the_impossible_are_answered", func(t *testing.T) {
		session := post(t, url+"/results", ask(1)).Session
		for _, more := range []string{`"waitMs":-5`, `"recallMs":9223372036854775807`, `"recallMs":-1`,
			`"after":18446744073709551615`, `"after":77`} {
			r := post(t, url+"/results", fmt.Sprintf(`{"election":"seat","epoch":1,"session":%q,%s}`, session, more))
			r.wants(t, 200, "")
		}
	})

	t.Run("and_after_all_that_the_worker_works", func(t *testing.T) {
		post(t, url, batch(1, 0, `{"id":"spaced", "kind" : "do", "payload": {"a" : 1}}`,
			`{"id":"\u00e4\n","kind":"do"}`, task("plain"))).wants(t, 200, "")
		for range 3 {
			next(t, ran.begun)
		}
		if s := w.Stats(); ran.count("ä\n") != 1 || s.Taken != 3 || s.Unknown != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestBackPressure(t *testing.T) {
	leaks(t)

	t.Run("a_full_worker_takes_what_it_has_room_for_and_answers_429", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		w.Concurrency, w.Queue = 1, 2
		url := serve(t, w)
		r := post(t, url, batch(1, 0, task("a"), task("b"), task("c"), task("d"), task("e")))
		r.wants(t, 429, "busy")

		if len(r.Refused) != 2 || r.Refused[0].ID != "d" || r.header.Get("Retry-After") != "1" {
			t.Errorf("answered %+v", r)
		}

		post(t, url, batch(1, 0, task("a"))).wants(t, 200, "")
		next(t, ran.begun)
		if s := w.Stats(); s.Busy != 2 || s.Taken != 3 || s.Running != 1 || s.Waiting != 2 {
			t.Errorf("stats %+v", s)
		}
	})

	t.Run("a_task_that_a_full_worker_refuses_is_done_by_another_and_waits_if_all_are_full", func(t *testing.T) {
		full, free := newRan(), newRan()
		full.gate = make(chan struct{})
		w := worker(full)
		w.Concurrency, w.Queue = 1, 1
		url := serve(t, w)
		post(t, url, batch(1, 0, task("a"), task("b"))).wants(t, 200, "")

		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("a", strings.TrimSuffix(url, "/v1/tasks"))
		began := time.Now()
		if e := next(t, send(t, p, "a", "x")); !errors.Is(e.err, work.ErrBusy) {
			t.Errorf("ended %+v", e)
		}

		// So long it is left alone.
		if v := p.Workers(); (!v[0].Busy || v[0].Usable()) && time.Since(began) < time.Second {
			t.Errorf("seen as %+v", v)
		}

		waits := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), work.Task{ID: "waits", Kind: "do"}, "a")
			waits <- err
		}()

		other := worker(free)
		p.Add("b", strings.TrimSuffix(serve(t, other), "/v1/tasks"))

		// A worker that does not know the kind does not fail the task.
		p.Add("c", strings.TrimSuffix(serve(t, &work.Worker{}), "/v1/tasks"))
		if r, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"}); err != nil || r.Outcome != work.Done ||
			free.count("x") != 1 {
			t.Errorf("%+v, %v", r, err)
		}

		if _, err := p.Do(t.Context(), work.Task{ID: "y", Kind: "undo"}, "b", "c"); !errors.Is(err,
			work.ErrUnknownKind) {
			t.Error(err)
		}

		close(full.gate)
		check(t, next(t, waits))
	})

	t.Run("a_pool_with_too_much_on_its_way_to_a_worker_is_busy_itself", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		p := lead(t, memstore.New(), "a").pool(t, work.Options{Queue: 2})
		p.Add("w", strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks"))
		a := send(t, p, "w", "a")
		send(t, p, "w", "b")

		nobody := func(work.Result, error) { t.Error("called") }
		if err := p.Send("w", work.Task{ID: "c", Kind: "do"}, nobody); !errors.Is(err, work.ErrBusy) {
			t.Error(err)
		}

		if err := p.Send("w", work.Task{ID: "a", Kind: "do"}, nobody); err == nil || errors.Is(err, work.ErrBusy) {
			t.Error(err)
		}

		if err := p.Send("v", work.Task{ID: "a", Kind: "do"}, nobody); !errors.Is(err, work.ErrNoWorker) {
			t.Error(err)
		}

		for _, bad := range []work.Task{{Kind: "do"}, {ID: "a"}, {ID: "a\xff", Kind: "do"},
			{ID: "a", Kind: "do", Timeout: -1}, {ID: "a", Kind: "do", Payload: []byte("{")},
			{ID: "a", Kind: "do", Payload: make([]byte, 300_000)}} {
			if p.Send("w", bad, nobody) == nil {
				t.Errorf("%+v was sent", bad)
			}
		}

		close(ran.gate)
		next(t, a)
	})

	t.Run("names_that_grow_when_they_are_written_do_not_make_a_request_too_large", func(t *testing.T) {
		ran := newRan()
		w := &work.Worker{Queue: 4096}
		kind := strings.Repeat("\x01", 256)
		w.Handle(kind, ran.handle)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{Batch: 1024})
		p.Add("w", strings.TrimSuffix(serve(t, w), "/v1/tasks"))

		ends := make(chan error, 2000)
		for i := range 1500 {
			check(t, p.Send("w", work.Task{ID: strings.Repeat("\x02", 250) + fmt.Sprint(i), Kind: kind},
				func(_ work.Result, err error) { ends <- err }))
		}

		for range 1500 {
			check(t, next(t, ends))
		}
	})
}

func TestWhoMaySend(t *testing.T) {
	leaks(t)

	t.Run("without_the_token_nothing_is_taken", func(t *testing.T) {
		w := worker(newRan())
		w.Token = "secret"
		url := serve(t, w)
		for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Bearer secret"},
			{"Authorization", "secret"}, {"Authorization", "Basic secret"}, {"Authorization", "Bearer "}} {
			for _, path := range []string{"", "/results"} {
				r := post(t, url+path, batch(7, 0, task("a")), header...)
				r.wants(t, 401, "")
				if r.header.Get("WWW-Authenticate") != signed.Scheme || strings.Contains(r.Error, "secret") {
					t.Errorf("answered %+v", r)
				}
			}
		}

		if highest, err := w.Fence.Highest(); err != nil || highest.Epoch != 0 {
			t.Errorf("its fence was raised to %v, %v", highest, err)
		}

		h := lead(t, memstore.New(), "a")
		for token, want := range map[string]error{"wrong": work.ErrUnreachable, "secret": nil} {
			p := h.pool(t, work.Options{Token: token})
			p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
			if e := next(t, send(t, p, "w", "b")); !errors.Is(e.err, want) {
				t.Errorf("token %s: %v", token, e.err)
			}
		}
	})

	t.Run("a_verified_certificate_stands_for_the_token_and_another_one_does_not", func(t *testing.T) {
		ca, stranger := authority(t), authority(t)
		for _, c := range []struct {
			fact    string
			auth    tls.ClientAuthType
			cert    tls.Certificate
			token   string
			taken   bool
			unknown bool // not even heard
		}{
			{"verified", tls.VerifyClientCertIfGiven, ca.issue(t), "", true, false},
			{"none", tls.VerifyClientCertIfGiven, tls.Certificate{}, "", false, false},
			{"none_but_the_token", tls.VerifyClientCertIfGiven, tls.Certificate{}, "secret", true, false},
			{"not_verified", tls.RequireAnyClientCert, stranger.issue(t), "", false, false},
			{"of_a_stranger", tls.RequireAndVerifyClientCert, stranger.issue(t), "secret", false, true},
		} {
			t.Run(c.fact, func(t *testing.T) {
				ran := newRan()
				w := worker(ran)
				w.Token = "secret"
				s := httptest.NewUnstartedServer(w)
				s.TLS = &tls.Config{ClientAuth: c.auth, ClientCAs: ca.pool}
				s.Config.ErrorLog = nolog

				s.StartTLS()
				t.Cleanup(func() { check(t, w.Close()); s.CloseClientConnections(); s.Close() })
				trust := x509.NewCertPool()
				trust.AddCert(s.Certificate())
				conf := &tls.Config{RootCAs: trust,
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						return &c.cert,
							nil
					}}
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
				t.Cleanup(client.CloseIdleConnections)

				p := lead(t, memstore.New(), "a").pool(t, work.Options{Token: c.token, Client: client, Scheme: "https"})
				p.Add("w", s.Listener.Addr().String())
				ends := send(t, p, "w", "a")
				if c.unknown { // under TLS 1.3 a client hears of it only after it has written
					for p.Workers()[0].Err == nil {
						<-time.After(time.Millisecond)
					}
					p.Remove("w")
				}

				if e := next(t, ends); (e.err == nil) != c.taken || ran.count("a") > 0 != c.taken {
					t.Errorf("ended %+v", e)
				}
			})
		}
	})

	t.Run("a_worker_whose_certificate_is_not_trusted_is_sent_nothing", func(t *testing.T) {
		ran := newRan()
		w := worker(ran)
		s := httptest.NewUnstartedServer(w)
		s.Config.ErrorLog = nolog
		s.StartTLS()
		t.Cleanup(func() { check(t, w.Close()); s.Close() })
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", s.URL)
		if e := next(t, send(t, p, "w", "a")); !errors.Is(e.err, work.ErrUnreachable) || ran.count("a") != 0 {
			t.Errorf("ended %+v", e)
		}
	})
}

// ca issues certificates.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func authority(t testing.TB) *ca {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}

	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	c := &ca{cert: cert, key: key, pool: x509.NewCertPool()}
	c.pool.AddCert(cert)
	return c
}

func (c *ca) issue(t testing.TB) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leader"},
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.cert, &key.PublicKey, c.key)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
