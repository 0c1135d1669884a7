package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/storetest"
	"github.com/regentd/regent/work"
)

func TestFence(t *testing.T) {
	leaks(t)

	t.Run("E01_a_task_of_an_older_epoch_is_refused_with_409_and_the_epoch_that_beats_it", func(t *testing.T) {
		ran, log := newRan(), &logs{}
		w := worker(ran)
		w.Log = log.logger()
		url := serve(t, w)
		post(t, url, batch(6, 0, task("a"))).wants(t, 200, "")
		r := post(t, url, batch(5, 0, task("b"), task("c")))
		r.wants(t, http.StatusConflict, "stale")

		if r.Epoch != 6 || r.header.Get(gate.EpochHeader) != "6" || len(r.Refused) != 2 || r.Refused[1].ID != "c" ||
			r.Error == "" {
			t.Errorf("answered %+v", r)
		}

		if s := w.Stats(); s.Stale != 2 || s.Taken != 1 || ran.count("b") != 0 {
			t.Errorf("stats %+v", s)
		}

		if !strings.Contains(log.String(), "refused tasks of a former leader") ||
			!strings.Contains(log.String(), "epoch=5 newest=6 refused=2") {
			t.Errorf("log: %s", log)
		}
	})

	t.Run("E02_a_task_of_a_newer_epoch_is_taken_and_its_epoch_known_from_then_on", func(t *testing.T) {
		url := serve(t, worker(newRan()))
		post(t, url, batch(6, 0, task("a"))).wants(t, 200, "")
		post(t, url, batch(7, 0, task("b"))).wants(t, 200, "")
		if r := post(t, url, batch(6, 0, task("c"))); r.code != 409 || r.Epoch != 7 {
			t.Errorf("answered %+v", r)
		}
	})

	t.Run("E03_a_fence_that_is_off_takes_everything", func(t *testing.T) {
		w := worker(newRan())
		w.Fence = &regent.Fence{Off: true}
		url := serve(t, w)
		for _, epoch := range []uint64{9, 3, 0, 8} {
			post(t, url, batch(epoch, 0, task(string(rune('a'+epoch))))).wants(t, 200, "")
			post(t, url+"/results", ask(epoch)).wants(t, 200, "")
		}

		if s := w.Stats(); s.Taken != 4 || s.Stale != 0 {
			t.Errorf("stats %+v", s)
		}
	})

	t.Run("E11_idempotent_tasks_of_the_last_epoch_are_taken_within_the_grace_with_a_warning_and_a_count",
		func(t *testing.T) {
			log := &logs{}
			w := worker(newRan())
			w.Fence, w.Log = &regent.Fence{Grace: time.Hour}, log.logger()
			url := serve(t, w)
			post(t, url, batch(6, 0, task("a"))).wants(t, 200, "")
			post(t, url, batch(7, 0, task("b"))).wants(t, 200, "")

			if strings.Contains(log.String(), "WARN") {
				t.Errorf("log: %s", log)
			}

			r := post(t, url, batch(6, time.Minute, idempotent("c"), task("writes")))
			r.wants(t, 409, "stale")
			if len(r.Refused) != 1 || r.Refused[0].ID != "writes" {
				t.Errorf("refused %v", r.Refused)
			}

			if s := w.Stats(); s.Late != 1 || s.Stale != 1 || s.Taken != 3 {
				t.Errorf("stats %+v", s)
			}

			if !strings.Contains(log.String(),
				`level=WARN msg="admitted tasks of a former leader within the grace" `+
					`leader=x epoch=6 newest=7 admitted=1`) {
				t.Errorf("log: %s", log)
			}

			post(t, url, batch(6, 2*time.Hour, idempotent("too old"))).wants(t, 409, "stale")
			post(t, url, batch(6, -time.Hour, idempotent("from the future"))).wants(t, 409, "stale")
			post(t, url, batch(5, 0, idempotent("E12: two epochs old"))).wants(t, 409, "stale")
		})

	t.Run("E11_no_grace_for_an_epoch_that_was_followed_too_long_ago", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			w := worker(newRan())
			w.Fence = &regent.Fence{Grace: 5 * time.Second}
			direct := func(body string) int {
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/tasks", strings.NewReader(body)))
				return rec.Code
			}

			first := direct(batch(6, 0, task("a")))
			second := direct(batch(7, 0, task("b")))
			time.Sleep(4 * time.Second)
			within := direct(batch(6, 0, idempotent("c")))
			time.Sleep(2 * time.Second)
			after := direct(batch(6, 0, idempotent("d")))
			if first != 200 || second != 200 || within != 200 || after != 409 {
				t.Errorf("answered %d, %d, %d, %d", first, second, within, after)
			}

			check(t, w.Close())
		})
	})

	t.Run("E12_older_than_the_last_epoch_has_no_grace", func(t *testing.T) {
		w := worker(newRan())
		w.Fence = &regent.Fence{Grace: time.Hour}
		url := serve(t, w)
		post(t, url, batch(7, 0, task("a"))).wants(t, 200, "")
		post(t, url, batch(5, 0, idempotent("b"))).wants(t, 409, "stale")
	})

	t.Run("E13_a_worker_that_is_started_again_knows_the_highest_epoch", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "epoch")
		for _, round := range []struct {
			epoch uint64
			code  int
		}{{41, 200}, {40, 409}, {41, 200}, {42, 200}, {41, 409}} {
			w := worker(newRan())
			w.Fence = &regent.Fence{Path: path}
			post(t, serve(t, w), batch(round.epoch, 0, task("a"))).wants(t, round.code,
				map[int]string{409: "stale"}[round.code])
		}
	})

	t.Run("E13_a_fence_that_cannot_be_kept_takes_nothing", func(t *testing.T) {
		log := &logs{}
		w := worker(newRan())
		w.Fence, w.Log = &regent.Fence{Path: filepath.Join(t.TempDir(), "no", "such", "place")}, log.logger()
		url := serve(t, w)
		post(t, url, batch(1, 0, task("a"))).wants(t, 503, "")
		post(t, url+"/results", ask(1)).wants(t, 503, "")
		if s := w.Stats(); s.Taken != 0 || !strings.Contains(log.String(), "fence check failed: nothing was accepted") {
			t.Errorf("stats %+v, log %s", s, log)
		}
	})

	t.Run("a_jump_of_more_than_one_epoch_is_believed_only_if_it_is_confirmed", func(t *testing.T) {
		w := worker(newRan())
		w.Fence = &regent.Fence{Confirm: func(t regent.Token) error {
			if t.Epoch > 10 {
				return errors.New("the store shows 10")
			}
			return nil
		}}

		url := serve(t, w)
		post(t, url, batch(1, 0, task("a"))).wants(t, 200, "")
		if r := post(t, url, batch(1<<40, 0, task("b"))); r.code != 503 ||
			!strings.Contains(r.Error, "the store shows 10") {
			t.Errorf("answered %+v", r)
		}

		post(t, url+"/results", ask(1<<40)).wants(t, 503, "")
		post(t, url, batch(10, 0, task("c"))).wants(t, 200, "")
		post(t, url, batch(11, 0, task("d"))).wants(t, 200, "") // the next one needs no confirmation
		post(t, url, batch(10, 0, task("e"))).wants(t, 409, "stale")
	})

	t.Run("a_query_is_fenced_like_a_task", func(t *testing.T) {
		w := worker(newRan())
		url := serve(t, w)
		post(t, url+"/results", ask(6)).wants(t, 200, "")
		r := post(t, url+"/results", ask(5))
		if r.code != 409 || r.Epoch != 6 || r.header.Get(gate.EpochHeader) != "6" || r.Results != nil {
			t.Errorf("answered %+v", r)
		}
		post(t, url, batch(5, 0, task("a"))).wants(t, 409, "stale")
	})
}

// TestTermsOfOneEpoch sends tasks of two terms that have the same epoch.
func TestTermsOfOneEpoch(t *testing.T) {
	leaks(t)

	t.Run("a_task_or_a_question_of_another_term_is_refused_with_409_and_the_term_that_beats_it", func(t *testing.T) {
		ran, log := newRan(), &logs{}
		w := worker(ran)
		w.Log = log.logger()
		url := serve(t, w)
		post(t, url, batch(6, 0, task("no term yet"))).wants(t, 200, "")
		post(t, url, named("A", batch(6, 0, task("a")))).wants(t, 200, "")

		for term, r := range map[string]reply{
			"B": post(t, url, named("B", batch(6, 0, idempotent("b")))),
			"":  post(t, url, batch(6, 0, task("of an older version"))),
		} {
			r.wants(t, http.StatusConflict, "stale")
			if r.Epoch != 6 || r.Term != "A" || r.header.Get(gate.EpochHeader) != "6" ||
				r.header.Get(gate.TermHeader) != "A" || !strings.Contains(r.Error, "it belongs to term A") {
				t.Errorf("term %q is answered %+v", term, r)
			}
		}

		r := post(t, url+"/results", named("B", ask(6)))
		if r.code != 409 || r.Epoch != 6 || r.Term != "A" || r.header.Get(gate.TermHeader) != "A" || r.Results != nil {
			t.Errorf("a question is answered %+v", r)
		}

		post(t, url+"/results", named("A", ask(6))).wants(t, 200, "")
		if s := w.Stats(); s.Stale != 3 || s.Taken != 2 || ran.count("b") != 0 {
			t.Errorf("stats %+v", s)
		}

		if !strings.Contains(log.String(), "refused tasks of a former leader") ||
			!strings.Contains(log.String(), "epoch 6 of term B is refused: it belongs to term A") {
			t.Errorf("log: %s", log)
		}
	})

	t.Run("a_token_that_no_term_can_have_is_answered_400", func(t *testing.T) {
		url := serve(t, worker(newRan()))
		for _, body := range []string{batch(1<<62, 0, task("a")), batch(0, 0, task("a")),
			named("A B", batch(1, 0, task("a")))} {
			if r := post(t, url, body); r.code != 400 || !strings.Contains(r.Error, "invalid fencing token") {
				t.Errorf("%s is answered %d %s", body, r.code, r.Error)
			}
		}
		post(t, url+"/results", ask(1<<63)).wants(t, 400, "")
		post(t, url, batch(1, 0, task("a"))).wants(t, 200, "")
	})

	t.Run("a_handler_is_told_the_term", func(t *testing.T) {
		tokens := make(chan regent.Token, 1)
		w := &work.Worker{Election: "seat"}
		w.Handle("do", func(_ context.Context, t work.Task) (json.RawMessage, error) {
			tokens <- t.Token()
			return nil, nil
		})

		h := lead(t, memstore.New(), "a")
		p := h.pool(t, work.Options{})
		p.Add("w", strings.TrimSuffix(serve(t, w), "/v1/tasks"))
		if e := next(t, send(t, p, "w", "a")); e.err != nil {
			t.Fatal(e.err)
		}

		if got := next(t, tokens); got != h.Token() || got.Term == "" {
			t.Errorf("it got %v", got)
		}
	})

	t.Run("of_two_terms_with_one_epoch_one_has_its_tasks_done_and_the_other_ends_as_fenced", func(t *testing.T) {
		store := memstore.New()
		first, second := storetest.TwoTerms(t, store, "seat", func() func() {
			snapshot := store.Snapshot()
			return func() { store.Rollback(snapshot) }
		})

		ran := newRan()
		url := strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks")
		one := work.NewPool(t.Context(), first, work.Options{})
		t.Cleanup(one.Close)
		one.Add("w", url)

		if e := next(t, send(t, one, "w", "of the first")); e.err != nil {
			t.Errorf("the first term's task ended with %v", e.err)
		}

		other := work.NewPool(t.Context(), second, work.Options{})
		t.Cleanup(other.Close)
		other.Add("w", url)
		if e := next(t, send(t, other, "w", "of the second")); !errors.Is(e.err, work.ErrEnded) ||
			ran.count("of the second") != 0 {
			t.Errorf("the second term's task ended with %v, and ran %d times", e.err, ran.count("of the second"))
		}

		next(t, second.Done())
	})
}

func TestAFencedTermEnds(t *testing.T) {
	leaks(t)

	t.Run("E01_a_leader_that_is_answered_409_ends_its_term_as_fenced_and_leads_again_beyond_the_epoch_that_beat_it",
		func(t *testing.T) {
			for what, contact := range map[string]func(t *testing.T, p *work.Pool){
				"by_a_query": nil,
				"by_a_task": func(t *testing.T, p *work.Pool) {
					if e := next(t, send(t, p, "w", "late")); !errors.Is(e.err, work.ErrEnded) {
						t.Errorf("the task ended with %v", e.err)
					}
				},
			} {
				t.Run(what, func(t *testing.T) {
					ran := newRan()
					w := worker(ran)
					url := serve(t, w)
					via := newProxy(t, w)
					via.deaf.Store(contact != nil) // no query arrives before the task
					post(t, url, batch(40, 0, task("of another leader"))).wants(t, 200, "")

					events := make(chan regent.Event, 1000)
					terms := make(chan regent.Term, 10)
					causes := make(chan error, 10)
					m := &regent.Member{Store: memstore.New(), ID: "a", Config: quick(),
						OnEvent: func(e regent.Event) { events <- e }}
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() {
						done <- m.Lead(ctx, "seat", func(ctx context.Context, term regent.Term) error {
							terms <- term
							p := work.NewPool(ctx, term, work.Options{Leader: "a"})
							defer p.Close()

							p.Add("w", via.URL)
							if term.Epoch == 1 && contact != nil {
								contact(t, p)
							}

							<-ctx.Done()
							causes <- context.Cause(ctx)
							return nil
						})
					}()

					if first := next(t, terms); first.Epoch != 1 {
						t.Errorf("the first epoch is %d", first.Epoch)
					}

					if cause := next(t, causes); !errors.Is(cause, regent.ErrFenced) {
						t.Errorf("the term ended by %v", cause)
					}

					if again := next(t, terms); again.Epoch != 41 {
						t.Errorf("the next epoch is %d", again.Epoch)
					}

					for lost := false; !lost; {
						if e := next(t, events); e.Kind == regent.EventLostLeadership {
							if lost = true; e.Metadata["reason"] != "fenced" || e.Epoch != 1 {
								t.Errorf("event %+v", e)
							}
						}
					}

					cancel()
					<-done
					if ran.count("late") != 0 {
						t.Error("a task of the fenced term ran")
					}
				})
			}
		})

	t.Run("a_409_that_names_no_other_term_ends_nothing", func(t *testing.T) {
		h := lead(t, memstore.New(), "a")
		for _, answer := range []string{"no", `{"epoch":1}`, fmt.Sprintf(`{"epoch":1,"term":%q}`, h.Incarnation),
			`{"term":"B"}`} {
			p := h.pool(t, work.Options{Fenced: func(newest uint64) { t.Errorf("fenced by %d: %s", newest, answer) }})
			s := httptest.NewServer(http.HandlerFunc(
				func(rw http.ResponseWriter, r *http.Request) { http.Error(rw, answer, http.StatusConflict) }))
			t.Cleanup(s.Close)
			p.Add("w", s.URL)
			if e := next(t, send(t, p, "w", "a")); !errors.Is(e.err, work.ErrUnreachable) {
				t.Errorf("%s: ended with %v", answer, e.err)
			}
		}

		if !h.Valid() {
			t.Error("the term has ended")
		}
	})
}
