package work_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// roleVar makes the test binary a leader in a process of its own.
const roleVar = "REGENT_WORK_ROLE"

func TestMain(m *testing.M) {
	role := strings.Split(os.Getenv(roleVar), "|")
	var err error
	switch role[0] {
	case "careless":
		err = careless(role[1], role[2], role[3])
	case "decent":
		err = decent(role[1], role[2], role[3])
	default:
		os.Exit(m.Run())
	}

	fmt.Println("error:", err)
	os.Exit(1)
}

// remote is a store in another process: that of the test, which keeps it in memory.
type remote struct{ url string }

func (s remote) call(ctx context.Context, verb, name, rev string, body []byte) (*http.Response, error) {
	q := url.Values{"name": {name}, "rev": {rev}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/"+verb+"?"+q.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}

	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = driver.ErrNotFound
	case http.StatusConflict:
		err = driver.ErrConflict
	default:
		err = errors.New(resp.Status)
	}

	return nil, errors.Join(err, resp.Body.Close())
}

func (s remote) lease(resp *http.Response, err error) (driver.Record, error) {
	if err != nil {
		return driver.Record{}, err
	}
	defer resp.Body.Close()

	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return driver.Record{}, err
	}

	name, _ := url.QueryUnescape(resp.Header.Get("Name"))
	return driver.ParseRecord(name, resp.Header.Get("Rev"), b)
}

func (s remote) Get(ctx context.Context, name string) (driver.Record, error) {
	return s.lease(s.call(ctx, "get", name, "", nil))
}

func (s remote) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return s.lease(s.call(ctx, "swap", l.Name, l.Rev, l.AppendJSON(nil)))
}

func (s remote) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		resp, err := s.call(ctx, "list", prefix, "", nil)
		if err != nil {
			yield(driver.Record{}, err)
			return
		}
		defer resp.Body.Close()

		var names []string
		if err := json.NewDecoder(resp.Body).Decode(&names); err != nil {
			yield(driver.Record{}, err)
			return
		}

		for _, name := range names {
			if !yield(s.Get(ctx, name)) {
				return
			}
		}
	}
}

func (s remote) Close() error { return nil }

// shim is the server side of remote. A member that is cut off gets no answer.
type shim struct {
	store *memstore.Store
	cut   sync.Map // paths' first element, a member's name
}

func (s *shim) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/")
	who, verb, _ := strings.Cut(path, "/")
	if _, cut := s.cut.Load(who); cut {
		panic(http.ErrAbortHandler)
	}

	name, rev := r.FormValue("name"), r.URL.Query().Get("rev")
	var l driver.Record
	var err error
	switch verb {
	case "get":
		l, err = s.store.Get(r.Context(), name)
	case "swap":
		var b []byte
		if b, err = io.ReadAll(r.Body); err == nil {
			if l, err = driver.ParseRecord(name, rev, b); err == nil {
				l, err = s.store.Swap(r.Context(), l)
			}
		}
	case "list":
		names := []string{}
		for l := range s.store.List(r.Context(), name) {
			names = append(names, l.Name)
		}
		_ = json.NewEncoder(rw).Encode(names)
		return
	}

	switch {
	case errors.Is(err, driver.ErrNotFound):
		rw.WriteHeader(http.StatusNotFound)
	case errors.Is(err, driver.ErrConflict):
		rw.WriteHeader(http.StatusConflict)
	case err != nil:
		rw.WriteHeader(http.StatusInternalServerError)
	default:
		rw.Header().Set("Name", url.QueryEscape(l.Name))
		rw.Header().Set("Rev", l.Rev)
		_, _ = rw.Write(l.AppendJSON(nil))
	}
}

// careless leads, and then sends tasks under the epoch of its first term for ever, even after that term.
func careless(id, store, worker string) error {
	m := &regent.Member{Store: remote{store}, ID: id, Config: quick()}
	won := make(chan regent.Term, 1)
	go m.Lead(context.Background(), "seat", func(ctx context.Context, t regent.Term) error {
		select {
		case won <- t:
		default:
		}
		<-ctx.Done()
		return nil
	})

	t := <-won
	fmt.Println("leads", t.Epoch)
	counts := map[int]int{}
	for n := 0; ; n++ {
		body := fmt.Sprintf(`{"election":"seat","leader":%q,"epoch":%d,"term":%q,"dispatchedMs":0,`+
			`"tasks":[{"id":"%s/%d","kind":"do"}]}`, id, t.Epoch, t.Incarnation, id, n)
		resp, err := http.Post(worker, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}

		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		counts[resp.StatusCode]++
		if counts[200] == 50 && resp.StatusCode == 200 {
			fmt.Println("taken", counts[200])
		}

		if counts[409] == 200 {
			fmt.Println("refused", counts[409], "taken", counts[200], "other", n+1-counts[409]-counts[200], "by",
				resp.Header.Get(gate.EpochHeader))
		}
	}
}

// decent leads correctly, and sends one task in each of its terms.
func decent(id, store, worker string) error {
	m := &regent.Member{Store: remote{store}, ID: id, Config: quick()}
	fmt.Println("stands")
	return m.Lead(context.Background(), "seat", func(ctx context.Context, t regent.Term) error {
		ready := make(chan struct{}, 1)
		p := work.NewPool(ctx, t, work.Options{Leader: id, Ready: func(string, []string) { ready <- struct{}{} }})
		defer p.Close()

		p.Add("w", strings.TrimSuffix(worker, "/v1/tasks"))
		<-ready
		fmt.Println("ready", t.Epoch)
		r, err := p.Do(ctx, work.Task{ID: fmt.Sprint(id, "/", t.Epoch), Kind: "do"})
		fmt.Println("did", r.Outcome, err)
		<-ctx.Done()
		return nil
	})
}

// child is a process with a role.
type child struct {
	*exec.Cmd
	lines chan string
}

func start(t *testing.T, role ...string) *child {
	t.Helper()
	c := &child{exec.Command("/proc/self/exe"), make(chan string, 1000)}
	c.Env = append(os.Environ(), roleVar+"="+strings.Join(role, "|"))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	check(t, err)

	check(t, c.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()

	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-read
		_ = c.Wait()
	})

	return c
}

// says waits for a line that begins with a word.
func (c *child) says(t *testing.T, word string) string {
	t.Helper()
	for {
		line := next(t, c.lines)
		if strings.HasPrefix(line, "error:") {
			t.Fatal(line)
		}
		if strings.HasPrefix(line, word) {
			return line
		}
	}
}

func TestADeposedLeader(t *testing.T) {
	leaks(t)
	deposed := func(t *testing.T, fall, rise func(a *child, s *shim)) {
		var epoch atomic.Uint64 // of b, once it is in contact
		var after atomic.Int32  // tasks of a that ran after b's first contact
		ran := newRan()
		go func() {
			for {
				select {
				case <-ran.begun: // nobody else takes them
				case <-t.Context().Done():
					return
				}
			}
		}()

		w := &work.Worker{Fence: &regent.Fence{Path: t.TempDir() + "/epoch"}, Concurrency: 1}
		w.Handle("do", func(ctx context.Context, k work.Task) (json.RawMessage, error) {
			if k.Epoch < epoch.Load() {
				after.Add(1)
			}
			return ran.handle(ctx, k)
		})

		workerURL := serve(t, w)
		s := &shim{store: memstore.New()}
		store := httptest.NewServer(s)
		store.Config.ErrorLog = nolog
		t.Cleanup(func() { store.CloseClientConnections(); store.Close() })
		a := start(t, "careless", "a", store.URL+"/a", workerURL)
		a.says(t, "leads 1")

		a.says(t, "taken 50")
		b := start(t, "decent", "b", store.URL+"/b", workerURL)
		b.says(t, "stands")
		fall(a, s)
		n, err := strconv.ParseUint(strings.Fields(b.says(t, "ready "))[1], 10, 64)
		check(t, err)

		for len(post(t, workerURL+"/results", ask(n)).Running) > 0 { // what it had taken before, which b knows of
		}
		epoch.Store(n)
		taken := w.Stats().Taken
		rise(a, s)

		if line := b.says(t, "did"); line != "did done <nil>" {
			t.Error(line)
		}

		line := a.says(t, "refused")
		t.Log(line)
		if !strings.HasSuffix(line, fmt.Sprint("other 0 by ", n)) {
			t.Error("not every task was refused or taken")
		}

		if n := after.Load(); n != 0 {
			t.Errorf("%d tasks of the deposed leader ran after the first contact of the new one", n)
		}

		if now := w.Stats(); now.Taken > taken+1 || now.Stale < 200 || ran.count(fmt.Sprint("b/", n)) != 1 {
			t.Errorf("%d taken, then %+v", taken, now)
		}

		fields := strings.Fields(line)
		if n, _ := strconv.Atoi(fields[3]); uint64(n) > taken {
			t.Errorf("it got answers that %d were taken, of %d", n, taken)
		}
	}

	t.Run("E01_one_that_was_frozen_and_goes_on_is_refused_real_processes", func(t *testing.T) {
		deposed(t, func(a *child, _ *shim) { check(t, a.Process.Signal(syscall.SIGSTOP)) },
			func(a *child, _ *shim) { check(t, a.Process.Signal(syscall.SIGCONT)) })
	})

	t.Run("E01_one_that_is_cut_off_from_the_store_alone_is_refused_real_processes", func(t *testing.T) {
		deposed(t, func(_ *child, s *shim) { s.cut.Store("a", true) }, func(*child, *shim) {})
	})
}
