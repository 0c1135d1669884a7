package redis

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

const setLua = `return redis.call('SET', KEYS[1], ARGV[1])`

func fenced(t *testing.T, c rueidis.Client, epoch uint64, key string) {
	t.Helper()
	msg, err := Fence(t.Context(), c, regent.Term{Election: "stargate:leader", Epoch: epoch}, setLua, []string{key},
		[]string{"done"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := msg.ToString(); err != nil || s != "OK" {
		t.Errorf("the script answers %q, %v", s, err)
	}
}

func stale(t *testing.T, c rueidis.Client, epoch, newest uint64, key string) {
	t.Helper()
	_, err := Fence(t.Context(), c, regent.Term{Election: "stargate:leader", Epoch: epoch}, setLua, []string{key},
		[]string{"old"})
	var e *regent.StaleError
	if !errors.As(err, &e) || e.Epoch != epoch || e.Newest != newest {
		t.Errorf("epoch %d after %d: %v, want a StaleError", epoch, newest, err)
	}
}

func TestFence(t *testing.T) {
	c := raw(t, empty(t))
	fenced(t, c, 9, "report")
	fenced(t, c, 9, "report")
	fenced(t, c, 10, "report") // 10 is more than 9, though not as text

	t.Run("an_older_epoch_writes_nothing", func(t *testing.T) {
		for _, key := range []string{"report", "a key that no leader has written yet"} {
			stale(t, c, 9, 10, key)
		}
		if got := ask(t, c, "GET", "report"); got != "done" {
			t.Errorf("report is %q", got)
		}
	})

	t.Run("the_largest_epochs_are_told_apart", func(t *testing.T) {
		fenced(t, c, 1<<62-1, "report")
		stale(t, c, 1<<62-2, 1<<62-1, "report")
	})

	t.Run("elections_have_fences_of_their_own", func(t *testing.T) {
		if _, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 1}, `redis.call('INCR', KEYS[1])`,
			[]string{"n"}, nil); err != nil {
			t.Error(err)
		}
		if got := ask(t, c, "GET", "n"); got != "1" {
			t.Errorf("n is %q", got)
		}
	})

	t.Run("a_script_sees_its_own_keys_and_arguments", func(t *testing.T) {
		msg, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 2},
			`return {#KEYS, #ARGV, KEYS[2], ARGV[1]}`, []string{"a", "b"}, []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := msg.AsStrSlice(); len(got) != 4 || got[2] != "b" || got[3] != "x" {
			t.Errorf("it sees %q", got)
		}
	})

	t.Run("an_error_of_the_script_is_no_stale_epoch", func(t *testing.T) {
		_, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 2},
			`return redis.error_reply('STALE bread')`, []string{"a"}, nil)
		var e *regent.StaleError
		if err == nil || errors.As(err, &e) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("what_no_term_can_have_is_refused", func(t *testing.T) {
		for _, epoch := range []uint64{0, 1 << 62, math.MaxUint64} {
			_, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: epoch}, `return 1`, []string{"a"},
				nil)
			if !errors.Is(err, regent.ErrInvalidToken) {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		}
	})

	t.Run("a_script_sees_nothing_of_the_fence", func(t *testing.T) {
		msg, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 2},
			`local ok = pcall(function() return guard end); return tostring(ok)`, []string{"a"}, nil)
		if s, _ := msg.ToString(); err != nil || s != "false" {
			t.Errorf("it sees the guard: %q, %v", s, err)
		}
	})
}

func TestFenceTerms(t *testing.T) {
	const guard = "regent:fence:stargate:leader"
	c := raw(t, empty(t))
	write := func(t *testing.T, epoch uint64, term string) error {
		t.Helper()
		_, err := Fence(t.Context(), c, regent.Term{Election: "stargate:leader", Epoch: epoch, Incarnation: term},
			setLua, []string{"report"}, []string{term})
		return err
	}

	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}

	refused := func(t *testing.T, err error, want regent.StaleError) {
		t.Helper()
		var got *regent.StaleError
		if !errors.As(err, &got) || *got != want {
			t.Errorf("got %v, want %v", err, &want)
		}
	}

	holds := func(t *testing.T, key, want string) {
		t.Helper()
		if got := ask(t, c, "GET", key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}

	t.Run("another_term_with_the_newest_epoch_writes_nothing", func(t *testing.T) {
		ask(t, c, "FLUSHALL")
		check(t, write(t, 7, "a"))
		holds(t, guard, "7 a")
		refused(t, write(t, 7, "b"), regent.StaleError{Epoch: 7, Term: "b", Newest: 7, NewestTerm: "a"})
		refused(t, write(t, 7, ""), regent.StaleError{Epoch: 7, Newest: 7, NewestTerm: "a"})
		holds(t, "report", "a")
		check(t, write(t, 7, "a"))
		check(t, write(t, 10, "b")) // 10 is more than 7, though not as text, and not by the length of the mark
		check(t, write(t, 11, "much longer than before"[:4]))
		refused(t, write(t, 10, "b"), regent.StaleError{Epoch: 10, Term: "b", Newest: 11, NewestTerm: "much"})
	})

	t.Run("the_mark_of_the_version_before_is_read_and_the_next_term_binds_it", func(t *testing.T) {
		ask(t, c, "FLUSHALL")
		ask(t, c, "SET", guard, "41")
		refused(t, write(t, 40, "a"), regent.StaleError{Epoch: 40, Term: "a", Newest: 41})
		check(t, write(t, 41, ""))
		holds(t, guard, "41")
		check(t, write(t, 41, "a"))
		holds(t, guard, "41 a")
		refused(t, write(t, 41, "b"), regent.StaleError{Epoch: 41, Term: "b", Newest: 41, NewestTerm: "a"})
	})

	t.Run("a_mark_that_no_fence_has_written_stops_everybody_and_says_which_key", func(t *testing.T) {
		for _, mark := range []string{"seven", "7x", "18446744073709551615", "4611686018427387904 a", "7 a b"} {
			ask(t, c, "FLUSHALL")
			ask(t, c, "SET", guard, mark)
			err := write(t, 1, "a")
			if err == nil || errors.As(err, new(*regent.StaleError)) || !strings.Contains(err.Error(), guard) {
				t.Errorf("%q: got %v", mark, err)
			}
			holds(t, guard, mark)
		}
	})

	t.Run("one_of_two_terms_with_one_epoch_writes", func(t *testing.T) {
		s := open(t, empty(t).url())
		first, second := storetest.TwoTerms(t, s, "seat", func() func() {
			return func() { ask(t, c, "DEL", "seat", "{seat}:regent") } // there was nothing before
		})

		by := func(term regent.Term) error {
			_, err := Fence(t.Context(), c, term, setLua, []string{"report"}, []string{term.Incarnation})
			return err
		}

		check(t, by(first))
		refused(t, by(second), regent.StaleError{Epoch: 1, Term: second.Incarnation, Newest: 1,
			NewestTerm: first.Incarnation})
		check(t, by(first))
		holds(t, "report", first.Incarnation)
	})
}
