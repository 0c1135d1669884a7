package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// payload is the payload of a typical check.
var payload = json.RawMessage(`{"url":"http://10.0.0.17:8080/healthz","expect":200,"retries":2}`)

// bed is a worker that can hold its tasks back, and a pool that sends to it.
type bed struct {
	b      *testing.B
	worker *work.Worker
	server *httptest.Server
	pool   *work.Pool
	hold   chan struct{} // tasks end when it is closed
	target uint64        // tasks taken when all was dispatched
	all    chan struct{}
	warm   bool   // the sizes of requests and answers are known
	body   []byte // the largest batch
	answer []byte
	sent   int
	ends   chan error
}

func newBed(b *testing.B, size int) *bed {
	x := &bed{b: b, ends: make(chan error, 1<<16)}
	x.worker = &work.Worker{Election: "seat", Token: "secret", Queue: 1 << 17, Concurrency: 1}
	x.worker.Handle("http", func(context.Context, work.Task) (json.RawMessage, error) { <-x.hold; return nil, nil })
	x.server = httptest.NewServer(http.HandlerFunc(x.serve))
	b.Cleanup(x.server.Close)
	term := lead(b, memstore.New(), "a")
	x.pool = work.NewPool(term.ctx, term.Term, work.Options{Leader: "a", Token: "secret", Batch: size, Queue: 1 << 17})
	b.Cleanup(x.pool.Close)
	x.pool.Add("w", x.server.URL)
	return x
}

func (x *bed) serve(rw http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/results") {
		x.worker.ServeHTTP(rw, r)
		return
	}

	if !x.warm {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		x.worker.ServeHTTP(rec, r)
		if len(body) > len(x.body) { // a full one
			x.body, x.answer = body, rec.Body.Bytes()
		}
		rw.Write(rec.Body.Bytes())
	} else {
		x.worker.ServeHTTP(rw, r)
	}

	if x.worker.Stats().Taken == x.target {
		select {
		case x.all <- struct{}{}:
		default: // two at once
		}
	}
}

// round dispatches tasks, and returns how long it took until the worker had them, and until the leader knew how they
// ended. The latter is measured by itself, if whole: then nothing is held up.
func (x *bed) round(tasks int, whole bool) time.Duration {
	x.hold, x.all = make(chan struct{}), make(chan struct{}, 1)
	x.target += uint64(tasks)
	if whole {
		close(x.hold)
	}

	all := make([]work.Task, tasks)
	for i := range all {
		x.sent++
		all[i] = work.Task{ID: fmt.Sprintf("poll/health-check/%08d", x.sent), Kind: "http", Payload: payload}
	}

	began := time.Now()
	for _, t := range all {
		if err := x.pool.Send("w", t, x.end); err != nil {
			x.b.Fatal(err)
		}
	}

	<-x.all
	took := time.Since(began)
	if !whole {
		close(x.hold)
	}

	for range tasks {
		if err := <-x.ends; err != nil {
			x.b.Fatal(err)
		}
	}

	if whole {
		took = time.Since(began)
	}
	return took
}

func (x *bed) end(_ work.Result, err error) { x.ends <- err }

// BenchmarkDispatch sends tasks to one worker over loopback, by turns with a plain net/http client that sends the same
// bytes as often, and is answered with as many. The ratio is that of their throughputs, the median of all turns, until
// the worker has the tasks: to a plain handler that reads the body and throws it away; as "decoded" to one that knows
// what was in it, by encoding/json; and as "whole" to the former, until the leader has received how each of them
// ended, which a plain client does not hear.
func BenchmarkDispatch(b *testing.B) {
	for _, size := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			x := newBed(b, size)
			for bytes.Count(x.body, []byte(`{"id":`)) < size { // until a full one was seen
				x.round(32*size, false)
			}

			x.warm = true
			plain := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					rw.Write(x.answer)
				}
			}))

			b.Cleanup(plain.Close)
			decoding := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				var batch struct {
					Tasks []struct {
						ID, Kind string
						Payload  json.RawMessage
					}
				}

				if json.NewDecoder(r.Body).Decode(&batch) == nil && len(batch.Tasks) == size {
					rw.Write(x.answer)
				}
			}))

			b.Cleanup(decoding.Close)
			client := &http.Client{Transport: &http.Transport{}}
			b.Cleanup(client.CloseIdleConnections)
			batches := 2048 / max(8, size)
			tasks := batches * size
			plainly(b, client, plain.URL, x.body, 16)

			x.round(tasks, true)
			var ratio, whole, decoded, ours, theirs []float64
			for b.Loop() {
				p := plainly(b, client, plain.URL, x.body, batches)
				j := plainly(b, client, decoding.URL, x.body, batches)
				d := x.round(tasks, false)
				decoded = append(decoded, j.Seconds()/d.Seconds())
				w := x.round(tasks, true)
				ratio, whole = append(ratio, p.Seconds()/d.Seconds()), append(whole, p.Seconds()/w.Seconds())
				ours, theirs = append(ours, float64(tasks)/d.Seconds()), append(theirs, float64(tasks)/p.Seconds())
			}

			median := func(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(median(decoded), "ratio-decoded")
			b.ReportMetric(median(whole), "ratio-whole")
			b.ReportMetric(median(ours), "tasks/s")
			b.ReportMetric(median(theirs), "plain-tasks/s")
		})
	}
}

// plainly posts a body repeatedly.
func plainly(b *testing.B, c *http.Client, url string, body []byte, times int) time.Duration {
	began := time.Now()
	for range times {
		resp, err := c.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
	return time.Since(began)
}

// BenchmarkWorker is the worker's side alone, without a network: a batch is taken, run, and its results are reported.
func BenchmarkWorker(b *testing.B) {
	for _, size := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			w := &work.Worker{Election: "seat", Token: "secret", Concurrency: 1}
			done := make(chan struct{}, size)
			w.Handle("http", func(context.Context, work.Task) (json.RawMessage, error) {
				done <- struct{}{}
				return nil, nil
			})
			post := func(path string, body []byte) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
				r.Header.Set("Authorization", "Bearer secret")
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				return rec
			}

			after := 0
			session := ""
			n := 0
			body := make([]byte, 0, 256*size)
			for b.Loop() {
				body = append(body[:0], `{"election":"seat","leader":"a","epoch":1,`+
					`"dispatchedMs":1700000000000,"tasks":[`...)
				for i := range size {
					n++
					if i > 0 {
						body = append(body, ',')
					}
					body = append(body, `{"id":"poll/health-check/`...)
					body = strconv.AppendInt(body, int64(10_000_000+n), 10)
					body = append(body, `","kind":"http","payload":`...)
					body = append(append(body, payload...), '}')
				}

				body = append(body, `]}`...)
				if rec := post("/v1/tasks", body); rec.Code != http.StatusOK {
					b.Fatal(rec.Code, rec.Body)
				}

				for range size {
					<-done
				}

				for ended := false; !ended; {
					rec := post("/v1/tasks/results",
						fmt.Appendf(nil,
							`{"election":"seat","leader":"a","epoch":1,"session":%q,"after":%d,"waitMs":1000}`,
							session, after))
					var report struct {
						Session string
						Next    int
					}

					if err := json.NewDecoder(rec.Body).Decode(&report); err != nil {
						b.Fatal(err)
					}

					session, after = report.Session, report.Next
					ended = after == n
				}
			}

			perTask(b, size)
		})
	}
}

func perTask(b *testing.B, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/task")
}

// canned answers a pool like a worker, always with the same answer.
type canned struct {
	size    int
	session sync.Once
	posted  chan int // tasks of a request
	results []byte
}

func newCanned(size int) *canned {
	c := &canned{size: size, posted: make(chan int, size)}
	c.results = []byte(`{"session":"S","next":1,"results":[`)
	for i := range size {
		if i > 0 {
			c.results = append(c.results, ',')
		}
		c.results = fmt.Appendf(c.results,
			`{"id":"poll/health-check/%08d","kind":"http","epoch":1,"outcome":"done",`+
				`"beganMs":1700000000000,"tookUs":12}`, i)
	}

	c.results = append(c.results, `]}`...)
	return c
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := []byte(`{"session":"S"}`)
	if strings.HasSuffix(r.URL.Path, "/results") {
		answer = c.results
		c.session.Do(func() { answer = []byte(`{"session":"S","next":0,"running":[],"results":[]}`) })
		for n := 0; n < c.size && len(answer) == len(c.results); {
			select {
			case more := <-c.posted:
				n += more
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
	} else {
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, err
		}
		c.posted <- bytes.Count(body, []byte(`{"id":`))
	}

	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)), Request: r}, nil
}

// BenchmarkLeader is the leader's side alone, without a network: tasks are sent, and their results received.
func BenchmarkLeader(b *testing.B) {
	for _, size := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			term := lead(b, memstore.New(), "a")
			ready := make(chan struct{}, 1)
			pool := work.NewPool(term.ctx, term.Term,
				work.Options{Batch: size, Client: &http.Client{Transport: newCanned(size)},
					Ready: func(string, []string) { ready <- struct{}{} }})

			b.Cleanup(pool.Close)
			pool.Add("w", "worker")
			<-ready
			tasks := make([]work.Task, size)
			for i := range tasks {
				tasks[i] = work.Task{ID: fmt.Sprintf("poll/health-check/%08d", i), Kind: "http", Payload: payload}
			}

			ends := make(chan error, size)
			done := func(_ work.Result, err error) { ends <- err }
			b.ReportAllocs()
			for b.Loop() {
				for _, t := range tasks {
					if err := pool.Send("w", t, done); err != nil {
						b.Fatal(err)
					}
				}

				for range tasks {
					if err := <-ends; err != nil {
						b.Fatal(err)
					}
				}
			}

			perTask(b, size)
		})
	}
}
