package gate_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/storetest"
)

func TestFenced(t *testing.T) {
	// send returns the answer to a request with these headers, where they are not empty.
	send := func(h http.Handler, epoch, term string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/", nil)
		for name, value := range map[string]string{gate.EpochHeader: epoch, gate.TermHeader: term} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}

		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}

	done := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })

	t.Run("a_request_of_a_former_leader_is_refused_with_the_term_that_beats_it", func(t *testing.T) {
		h := gate.Fenced(&regent.Fence{}, done)
		for _, tt := range []struct {
			epoch, term string
			code        int
			beats, by   string
		}{
			{"6", "", 204, "", ""}, {"7", "", 204, "", ""}, {"6", "", 409, "7", ""}, {"7", "", 204, "", ""},
			{"7", "a", 204, "", ""}, {"7", "b", 409, "7", "a"}, {"7", "", 409, "7", "a"}, {"7", "a", 204, "", ""},
			{"8", "b", 204, "", ""}, {"7", "a", 409, "8", "b"},
			{"", "", 428, "", ""}, {"", "b", 428, "", ""}, {"-1", "", 400, "", ""}, {"x", "", 400, "", ""},
			{"0", "", 400, "", ""},
			{"9", "b c", 400, "", ""}, {"4611686018427387904", "", 400, "", ""},
			{"18446744073709551616", "", 400, "", ""},
		} {
			w := send(h, tt.epoch, tt.term)
			if w.Code != tt.code || w.Header().Get(gate.EpochHeader) != tt.beats ||
				w.Header().Get(gate.TermHeader) != tt.by {
				t.Errorf("epoch %q of term %q: %d, beaten by %q of %q", tt.epoch, tt.term, w.Code,
					w.Header().Get(gate.EpochHeader), w.Header().Get(gate.TermHeader))
			}
		}
	})

	t.Run("a_fence_that_cannot_be_kept_lets_nothing_pass", func(t *testing.T) {
		h := gate.Fenced(&regent.Fence{Path: filepath.Join(t.TempDir(), "no", "such", "place")}, done)
		if w := send(h, "1", ""); w.Code != 503 {
			t.Errorf("answered %d", w.Code)
		}
	})

	t.Run("one_of_two_terms_with_one_epoch_passes", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			first, second := storetest.TwoTerms(t, store, "seat", func() func() {
				snapshot := store.Snapshot()
				return func() { store.Rollback(snapshot) }
			})

			h := gate.Fenced(&regent.Fence{}, done)
			answer := func(term regent.Term) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", "/", nil)
				gate.SetToken(r.Header, term.Token())
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}

			if w := answer(first); w.Code != 204 {
				t.Errorf("the first: %d %s", w.Code, w.Body)
			}

			if w := answer(second); w.Code != 409 || w.Header().Get(gate.TermHeader) != first.Incarnation {
				t.Errorf("the second: %d %v %s", w.Code, w.Header(), w.Body)
			}

			if w := answer(first); w.Code != 204 {
				t.Errorf("the first again: %d %s", w.Code, w.Body)
			}
		})
	})
}
