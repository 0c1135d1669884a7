package s3

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func tryOpen(t *testing.T, addr string) error {
	t.Helper()
	s, err := Open(t.Context(), addr, Options{Credentials: credentials()})
	if err == nil {
		s.Close()
	}
	return err
}

// wantUnsafe wants a refusal that says why, and that trying again is of no use.
func wantUnsafe(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, errUnsafe) {
		t.Errorf("Open = %v, want a refusal of a server whose conditional writes are not atomic", err)
	}
}

func TestOpenRefusesAServerThatFailsTheRace(t *testing.T) {
	t.Run("a_server_that_checks_and_then_writes", func(t *testing.T) {
		_, endpoint := startFake(t)
		addr := fresh(endpoint)
		sequence := unprobed(t, addr) // as any sequence of requests shows, it honours conditions
		l := swap(t, sequence, held("seat", "a", 1))
		if _, err := sequence.Swap(t.Context(), held("seat", "a", 1)); !errors.Is(err, driver.ErrConflict) {
			t.Fatalf("the fake server fails a sequence already: %v", err)
		}
		swap(t, sequence, l)

		wantUnsafe(t, tryOpen(t, addr))
	})
	t.Run("a_server_that_ignores_conditions", func(t *testing.T) {
		f, endpoint := startFake(t)
		f.ignores = true
		wantUnsafe(t, tryOpen(t, fresh(endpoint)))
	})
	t.Run("a_server_that_creates_what_is_to_be_replaced", func(t *testing.T) {
		p := startProxy(t, shared.endpoint())
		first := true
		p.set(func(r *http.Request) fault {
			if r.Method != http.MethodPut || r.Header.Get("If-Match") == "" || !first {
				return nil
			}
			first = false
			return unconditional
		})
		wantUnsafe(t, tryOpen(t, fresh(p.URL)))
	})
	for name, header := range map[string]string{"first_writes": "If-None-Match", "later_writes": "If-Match"} {
		t.Run("a_proxy_that_drops_some_conditions_of_"+name, func(t *testing.T) {
			p := startProxy(t, shared.endpoint())
			var n atomic.Int64
			p.set(func(r *http.Request) fault {
				if strings.Contains(r.URL.Path, "result") || r.Header.Get(header) == "" || n.Add(1)%8 != 0 {
					return nil
				}
				return unconditional
			})
			wantUnsafe(t, tryOpen(t, fresh(p.URL)))
		})
	}
}

// The result is kept in the bucket: of many that open the store one runs the race, and later ones send one request.
func TestOneOfManyRunsTheRace(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	addr := fresh(p.URL)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(t.Context(), addr, Options{Credentials: credentials()})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
	writes := 0
	for _, r := range p.requests() {
		if r.method == http.MethodPut && !strings.Contains(r.key, "result") {
			writes++
		}
	}
	if want := 1 + 2*raceRounds*racers; writes != want {
		t.Errorf("8 stores were opened with %d writes of the race, want %d", writes, want)
	}

	open(t, addr)
	if sent := p.requests(); len(sent) != 1 || sent[0].method != http.MethodGet {
		t.Errorf("a store that was opened later has sent %+v, want one read", sent)
	}
	for l, err := range open(t, addr).List(t.Context(), "") {
		t.Errorf("the race has left %+v, %v among the registers", l, err)
	}
}

// A race that is spread over time keeps Open for its first competition only.
func TestASpreadRace(t *testing.T) {
	slowly := func(t *testing.T, addr string, over time.Duration) *Store {
		t.Helper()
		s, err := Open(t.Context(), addr, Options{Credentials: credentials(), CheckOver: over})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	written := func(p *proxy) int {
		n := 0
		for _, r := range p.requests() {
			if r.method == http.MethodPut && !strings.Contains(r.key, "result") {
				n++
			}
		}
		return n
	}

	t.Run("Open_waits_for_one_competition_and_Close_ends_the_rest", func(t *testing.T) {
		p := startProxy(t, shared.endpoint())
		s := slowly(t, fresh(p.URL), time.Hour)
		if n := written(p); n != 1+racers {
			t.Errorf("%d writes at Open, want %d", n, 1+racers)
		}
		if s.raceStep > 5*time.Second {
			t.Errorf("competitions are %v apart: others would run the race as well", s.raceStep)
		}
		s.Close()
		if n := written(p); n != 0 {
			t.Errorf("%d writes after that", n)
		}
	})

	t.Run("all_competitions_are_held_and_the_verdict_is_kept", func(t *testing.T) {
		p := startProxy(t, shared.endpoint())
		s := slowly(t, fresh(p.URL), 50*time.Millisecond)
		passed := eventually(time.Minute, func() bool {
			v, err := s.readResult(t.Context())
			return err == nil && v.counts()
		})
		if n := written(p); !passed || n != 1+2*raceRounds*racers {
			t.Errorf("a result: %v, after %d writes, want %d", passed, n, 1+2*raceRounds*racers)
		}
	})

	t.Run("a_server_that_fails_the_first_competition_is_refused_by_Open", func(t *testing.T) {
		f, endpoint := startFake(t)
		f.ignores = true
		_, err := Open(t.Context(), fresh(endpoint), Options{Credentials: credentials(), CheckOver: time.Hour})
		wantUnsafe(t, err)
	})

	t.Run("a_server_that_fails_a_later_one_is_refused_from_then_on", func(t *testing.T) {
		p := startProxy(t, shared.endpoint())
		p.set(func(r *http.Request) fault {
			if strings.Contains(r.URL.Path, "result") || r.Header.Get("If-Match") == "" ||
				strings.Contains(r.Header.Get("If-Match"), "0000000000000000") { // of the object that is missing
				return nil
			}
			return unconditional
		})
		s := slowly(t, fresh(p.URL), 50*time.Millisecond)
		refused := eventually(time.Minute, func() bool {
			_, err := s.Get(t.Context(), "seat")
			return errors.Is(err, driver.ErrRefused) && errors.Is(err, errUnsafe)
		})
		if !refused {
			t.Error("the store goes on")
		}
	})
}

// A process that starts while another runs the race looks at the result later, and runs the race itself if there is
// none.
func TestARaceThatWasNotFinishedIsRunByAnother(t *testing.T) {
	f, endpoint := startFake(t)
	addr := fresh(endpoint)
	first := unprobed(t, addr)
	if _, err := first.writeResult(t.Context(), raceResult{Running: true}); err != nil { // as one that died meanwhile
		t.Fatal(err)
	}

	f.ignores = true
	s, err := openWithin(t.Context(), addr, Options{Credentials: credentials()}, 100*time.Millisecond)
	if err != nil {
		t.Fatalf("Open beside a race: %v", err)
	}
	defer s.Close()
	refused := eventually(time.Minute, func() bool {
		_, err := s.Get(t.Context(), "seat")
		return errors.Is(err, driver.ErrRefused) && errors.Is(err, errUnsafe)
	})
	if !refused {
		t.Error("a store whose server fails the race after Open goes on")
	}
}

// If a race was not finished, one of the many that wait for it runs it, and not each of them.
func TestOneOfManyRunsTheRaceThatWasNotFinished(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	addr := fresh(p.URL)
	if _, err := unprobed(t, addr).writeResult(t.Context(), raceResult{Running: true}); err != nil {
		t.Fatal(err)
	}

	var stores []*Store
	for range 8 {
		s, err := openWithin(t.Context(), addr, Options{Credentials: credentials()}, 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
	}
	passed := eventually(time.Minute, func() bool {
		v, err := stores[0].readResult(t.Context())
		return err == nil && v.counts()
	})
	writes := 0
	for _, r := range p.requests() {
		if r.method == http.MethodPut && !strings.Contains(r.key, "result") {
			writes++
		}
	}
	if most := 2 * (1 + 2*raceRounds*racers); !passed || writes > most { // on a slow machine a race may take 3 s
		t.Errorf("a result: %v, after %d writes, want at most %d", passed, writes, most)
	}
}

// A race that shows nothing, since the server throttles it, is tried again, and is no result.
func TestARaceThatShowsNothing(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	p.set(func(r *http.Request) fault {
		if r.Header.Get("If-None-Match") == "*" && !strings.Contains(r.URL.Path, "result") {
			return answer(503, "SlowDown")
		}
		return nil
	})
	addr := fresh(p.URL)
	err := tryOpen(t, addr)
	if err == nil || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "showed nothing") {
		t.Errorf("Open = %v, want an error that may go away", err)
	}
	p.set(nil)
	v, err := unprobed(t, addr).readResult(t.Context())
	if err != nil || v.counts() || v.running(time.Hour) {
		t.Errorf("a race that showed nothing left the result %+v, %v", v, err)
	}
}
