package regent_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
)

// queue is a client of a job queue with the methods of River's: a job runs once a second until Stop.
type queue struct {
	node   *node
	takes  time.Duration // how long a job takes
	mu     sync.Mutex
	cancel context.CancelFunc // of the jobs
	quit   chan struct{}      // closed by Stop
	done   chan struct{}      // closed when no job runs
}

func (q *queue) Start(ctx context.Context) error {
	ctx, q.cancel = context.WithCancel(ctx)
	q.quit = make(chan struct{})
	q.done = make(chan struct{})
	go func() {
		defer close(q.done)
		for {
			select {
			case <-time.After(time.Second):
				q.job(ctx)
			case <-q.quit:
				return
			case <-ctx.Done():
				return
			}
		}
	}()

	return nil
}

// job runs one job.
func (q *queue) job(ctx context.Context) {
	q.node.c.note("begin %s", q.node.ID)
	select {
	case <-time.After(q.takes):
		q.node.c.note("finish %s", q.node.ID)
	case <-ctx.Done():
		q.node.c.note("cancel %s", q.node.ID)
	}
}

func (q *queue) Stop(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	select {
	case <-q.quit:
	default:
		close(q.quit)
	}

	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) StopAndCancel(ctx context.Context) error {
	q.cancel()
	return q.Stop(ctx)
}

// gate runs a queue while its member leads, as docs/SCHEDULERS.md shows it.
func gate(ctx context.Context, m *regent.Member, client *queue, stopTimeout time.Duration) error {
	err := m.Lead(ctx, "jobs", func(ctx context.Context, t regent.Term) error {
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		<-ctx.Done() // the term ends

		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout/2)
		defer cancel()
		if err := client.Stop(stop); err != nil { // some jobs have not ended
			return client.StopAndCancel(context.WithoutCancel(ctx))
		}
		return nil
	})

	return err
}

// TestSchedulers runs a job queue on the leader alone.
func TestSchedulers(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		ends  string // how the last job of a term ends
	}{
		"N05_a_queue_runs_on_the_leader_and_its_short_jobs_finish":       {300 * time.Millisecond, "finish"},
		"N05_a_queue_runs_on_the_leader_and_its_long_jobs_are_cancelled": {time.Hour, "cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cl *cluster) {
				type running struct {
					stop context.CancelFunc
					done chan struct{}
				}
				start := func(id string) running {
					n := cl.member(id, config(regent.Cluster()))
					ctx, cancel := context.WithCancel(cl.ctx)
					r := running{cancel, make(chan struct{})}
					go func() {
						defer close(r.done)
						_ = gate(ctx, n.Member, &queue{node: n, takes: c.takes}, regent.Cluster().StopTimeout)
					}()
					return r
				}
				a := start("a")
				time.Sleep(10*time.Second + 100*time.Millisecond)
				b := start("b")
				time.Sleep(10 * time.Second)
				if cl.noted("begin a") == 0 || cl.noted("begin b") != 0 {
					t.Fatalf("while a leads: %v", cl.log)
				}

				a.stop()
				<-a.done
				synctest.Wait()
				before := cl.noted("begin a")
				time.Sleep(10 * time.Second)
				if cl.noted("begin a") != before || cl.noted("begin b") == 0 {
					t.Errorf("while b leads: %v", cl.log)
				}
				if cl.noted(c.ends+" a") == 0 || cl.noted("begin a") != cl.noted("finish a")+cl.noted("cancel a") {
					t.Errorf("a's jobs: %v", cl.log)
				}

				b.stop()
				<-b.done
				alternates(t, cl)
			})
		})
	}
}

// alternates checks that each job had ended before the next one began.
func alternates(t *testing.T, c *cluster) {
	t.Helper()
	for i, what := range c.log {
		if begins := len(what) > 5 && what[:5] == "begin"; begins != (i%2 == 0) {
			t.Fatalf("two jobs at once: %v", c.log)
		}
	}
}
