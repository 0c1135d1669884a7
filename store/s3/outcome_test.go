package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// What an answer to a write means: a conflict is the server's own word, and every other failure leaves the outcome
// unknown. Each request is sent once.
func TestOutcomeOfASwap(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	failed := answer(412, "PreconditionFailed")
	for name, c := range map[string]struct {
		fault    fault
		create   bool
		conflict bool
		refused  bool
	}{
		"412_of_a_first_write_is_a_conflict":       {fault: failed, create: true, conflict: true},
		"412_is_a_conflict":                        {fault: failed, conflict: true},
		"404_of_a_later_write_is_a_conflict":       {fault: answer(404, "NoSuchKey"), conflict: true},
		"404_of_a_first_write_is_unknown":          {fault: answer(404, "NoSuchKey"), create: true},
		"404_of_the_bucket_is_refused":             {fault: answer(404, "NoSuchBucket"), refused: true},
		"412_of_another_server_is_unknown":         {fault: answer(412, "GatewayRule")},
		"404_of_another_server_is_unknown":         {fault: answer(404, "")},
		"409_is_unknown":                           {fault: answer(409, "ConditionalRequestConflict")},
		"409_of_a_first_write_is_unknown":          {fault: answer(409, "ConditionalRequestConflict"), create: true},
		"429_is_unknown":                           {fault: answer(429, "SlowDown")},
		"503_is_unknown":                           {fault: answer(503, "SlowDown")},
		"500_is_unknown":                           {fault: answer(500, "InternalError")},
		"a_lost_answer_is_unknown":                 {fault: loseAnswer},
		"a_lost_request_is_unknown":                {fault: dropped},
		"a_denied_write_is_refused":                {fault: answer(403, "AccessDenied"), refused: true},
		"a_wrong_secret_is_refused":                {fault: answer(403, "SignatureDoesNotMatch"), refused: true},
		"a_bucket_of_another_region_is_refused":    {fault: answer(301, "PermanentRedirect"), refused: true},
		"a_server_without_conditions_is_refused":   {fault: answer(501, "NotImplemented"), refused: true},
		"a_clock_that_is_wrong_for_now_is_unknown": {fault: answer(403, "RequestTimeTooSkewed")},
	} {
		t.Run(name, func(t *testing.T) {
			s := unprobed(t, fresh(p.URL))
			l := held("seat", "a", 1)
			if !c.create {
				l = swap(t, s, l)
			}
			p.requests()
			p.set(puts(c.fault))
			defer p.set(nil)

			_, err := s.Swap(t.Context(), l)
			conflict, refused := errors.Is(err, driver.ErrConflict), errors.Is(err, driver.ErrRefused)
			if err == nil || conflict != c.conflict || refused != c.refused {
				t.Errorf("Swap = %v, want a conflict: %v, a refusal: %v", err, c.conflict, c.refused)
			}
			if sent := p.requests(); len(sent) != 1 {
				t.Errorf("the swap was %d requests, want one: %+v", len(sent), sent)
			}
		})
	}
}

func TestOutcomeOfARead(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	for name, c := range map[string]struct {
		fault    fault
		notFound bool
		refused  bool
	}{
		"404_of_the_object_is_not_found":        {fault: answer(404, "NoSuchKey"), notFound: true},
		"404_of_the_bucket_is_refused":          {fault: answer(404, "NoSuchBucket"), refused: true},
		"404_of_another_server_proves_nothing":  {fault: answer(404, "")},
		"503_is_an_error":                       {fault: answer(503, "SlowDown")},
		"a_lost_answer_is_an_error":             {fault: loseAnswer},
		"a_denied_read_is_refused":              {fault: answer(403, "AccessDenied"), refused: true},
		"412_proves_nothing":                    {fault: answer(412, "PreconditionFailed")},
		"an_answer_without_content_is_an_error": {fault: answer(200, "")},
	} {
		t.Run(name, func(t *testing.T) {
			s := unprobed(t, fresh(p.URL))
			swap(t, s, held("seat", "a", 1))
			p.all(c.fault)
			defer p.set(nil)

			_, err := s.Get(t.Context(), "seat")
			notFound, refused := errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrRefused)
			if err == nil || notFound != c.notFound || refused != c.refused || errors.Is(err, driver.ErrConflict) {
				t.Errorf("Get = %v, want not found: %v, a refusal: %v", err, c.notFound, c.refused)
			}
			for l, err := range s.List(t.Context(), "") {
				if err == nil || errors.Is(err, driver.ErrNotFound) {
					t.Errorf("List yields %+v, %v, want an error that is not ErrNotFound", l, err)
				}
			}
		})
	}
}

// A request that hangs ends with its context, and holds up no other.
func TestHungRequests(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	s := unprobed(t, fresh(p.URL))
	l := swap(t, s, held("seat", "a", 1))
	p.set(puts(hang))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Swap(ctx, l)
		done <- err
	}()
	if _, err := s.Get(t.Context(), "seat"); err != nil {
		t.Errorf("a read beside a hung write: %v", err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrConflict) {
			t.Errorf("a hung swap = %v, want context.DeadlineExceeded alone", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a hung swap does not end with its context")
	}

	p.set(nil)
	if _, err := s.Swap(t.Context(), l); err != nil {
		t.Errorf("a swap after a hung one: %v", err)
	}
}

// An object that was deleted by hand is a conflict for whoever holds its revision, and is never created in its place.
func TestADeletedObjectIsNotCreatedAgain(t *testing.T) {
	s := unprobed(t, fresh(shared.endpoint()))
	l := swap(t, s, held("seat", "a", 7))
	deleteObject(t, s.addr.key("seat"))

	if _, err := s.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("Swap = %v, want ErrConflict", err)
	}
	if _, err := s.Get(t.Context(), "seat"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

// A server that answers with the ETag of one write and the content of another is read again. One whose ETags are no
// hashes is not asked twice, once a write has shown that.
func TestMixedAnswers(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	addr := fresh(p.URL)
	s, other := unprobed(t, addr), unprobed(t, addr)
	first := swap(t, other, held("seat", "a", 1))
	second := swap(t, other, held2(first, "b", 2))

	mixed := 0
	p.set(func(r *http.Request) fault {
		if r.Method != http.MethodGet || mixed > 0 {
			return nil
		}
		mixed++
		return withETag(func(string) string { return first.Rev })
	})
	got, err := s.Get(t.Context(), "seat")
	if err != nil || got.Rev != second.Rev || got.Holder.ID != "b" || mixed != 1 {
		t.Errorf("Get = revision %q of %v, %v, want %q of b", got.Rev, got.Holder, err, second.Rev)
	}

	p.all(withETag(func(etag string) string { return "opaque-" + etag }))
	s = unprobed(t, addr)
	p.requests()
	for i, want := range []int{2, 1} { // before and after a write
		if got, err := s.Get(t.Context(), "seat"); err != nil || got.Rev != "opaque-"+second.Rev {
			t.Errorf("Get = revision %q, %v", got.Rev, err)
		}
		if n := len(p.requests()); n != want {
			t.Errorf("read %d of an object with another kind of ETag was %d requests, want %d", i, n, want)
		}
		swap(t, s, held(fmt.Sprint("other", i), "a", 1))
		s.cache.drop("seat")
		p.requests()
	}
}

// held2 is held, on a revision.
func held2(on driver.Record, id string, epoch uint64) driver.Record {
	l := held(on.Name, id, epoch)
	l.Rev = on.Rev
	return l
}

// Reads cost no body where nothing has changed, and a list reads what has changed alone.
func TestWhatReadsCost(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	addr := fresh(p.URL)
	s, other := unprobed(t, addr), unprobed(t, addr)
	var all []driver.Record
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all = append(all, swap(t, other, held(name, "x", 1)))
	}
	cost := func(what string, wantGets, wantLists, wantBodies int, f func()) {
		t.Helper()
		p.requests()
		f()
		gets, lists, bodies := 0, 0, 0
		for _, r := range p.requests() {
			switch {
			case r.method != http.MethodGet:
				t.Errorf("%s: %s %s", what, r.method, r.key)
			case r.key == "" || r.key == "/"+bucket:
				lists++
			default:
				gets++
				if r.answeredWith > 0 {
					bodies++
				}
			}
		}
		if gets != wantGets || lists != wantLists || bodies != wantBodies {
			t.Errorf("%s: %d gets, %d lists, %d bodies, want %d, %d, %d",
				what, gets, lists, bodies, wantGets, wantLists, wantBodies)
		}
	}
	list := func() {
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
		}
	}

	cost("the first list", 6, 1, 6, list)
	cost("a list of what has not changed", 0, 1, 0, list)
	cost("a refresh of what has not changed", 6, 0, 0, func() { s.Refresh(t.Context(), all) })
	cost("a read of what has not changed", 1, 0, 0, func() { _, _ = s.Get(t.Context(), "a") })
	all[1], all[4] = swap(t, other, all[1]), swap(t, other, all[4])
	cost("a list of which two have changed", 2, 1, 2, list)
	all[2] = swap(t, other, all[2])
	cost("a read of what has changed", 1, 0, 1, func() { _, _ = s.Get(t.Context(), "c") })

	counts := s.Requests()
	if counts["list"] != 3 || counts["get"] != 6+6+1+2+1+1 { // one by Open
		t.Errorf("the store has counted %v", counts)
	}
}
