package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serial returns the serial number of the certificate that a node shows.
func serial(t *testing.T, d *daemon) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "http://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestNewCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := ca.issue("a")
	d := start(t, "a", sqliteStore(t), nil, "--config", config)
	d.await("became leader")
	first := serial(t, d)

	t.Run("SIGHUP_takes_them_in_at_once", func(t *testing.T) {
		ca.issue("a")
		d.signal(syscall.SIGHUP)
		d.await("certificates reloaded")

		if got := serial(t, d); got == first {
			t.Error("the former one is in use")
		}
	})

	t.Run("a_file_that_is_broken_is_not_used_and_said_once", func(t *testing.T) {
		was := serial(t, d)
		whole, err := os.ReadFile(ca.file("a.crt"))
		if err != nil {
			t.Fatal(err)
		}

		writeFile(t, ca.file("a.crt"), string(whole[:len(whole)/2]))
		d.signal(syscall.SIGHUP)
		d.signal(syscall.SIGHUP)
		d.await(`level=WARN msg="certificates cannot be reloaded: the former ones stay in use" error=.*tlsCert`)

		if got := serial(t, d); got != was {
			t.Errorf("another one is in use: %d", got)
		}
		if err := os.Remove(ca.file("a.crt")); err != nil {
			t.Fatal(err)
		}

		d.signal(syscall.SIGHUP)
		d.await(`stay in use" error=.*no such file`)

		if n := len(d.said("certificates cannot be reloaded.*PEM|failed to find")); n > 1 {
			t.Errorf("said %d times", n)
		}
	})

	t.Run("they_are_found_within_a_minute_without_a_signal", func(t *testing.T) {
		was := serial(t, d)
		ca.issue("a")
		waitFor(t, "a new certificate", func() bool { return serial(t, d) != was })
	})

	t.Run("a_new_authority_counts_for_clients_and_the_former_one_no_more", func(t *testing.T) {
		other := newAuthority(t)
		other.issue("operator")
		ca.issue("operator")

		trusted := func(a *authority) bool {
			pair, err := tls.LoadX509KeyPair(a.file("operator.crt"), a.file("operator.key"))
			if err != nil {
				t.Fatal(err)
			}

			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
				Certificates: []tls.Certificate{pair}}}
			defer transport.CloseIdleConnections()

			url := "https" + strings.TrimPrefix(d.url, "http") + "/v1/elections/coordinator/resume"
			resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Post(url, "application/json",
				strings.NewReader(`{"epoch":1}`))
			if err != nil {
				return false
			}

			resp.Body.Close()
			return resp.StatusCode == 200
		}
		if !trusted(ca) || trusted(other) {
			t.Fatal("before")
		}

		b, err := os.ReadFile(other.file("ca.crt"))
		if err != nil {
			t.Fatal(err)
		}

		writeFile(t, ca.file("ca.crt"), string(b))
		d.signal(syscall.SIGHUP)
		waitFor(t, "the new authority counts", func() bool { return trusted(other) })

		if trusted(ca) {
			t.Error("the former authority still counts")
		}
	})
	d.stop()
}
