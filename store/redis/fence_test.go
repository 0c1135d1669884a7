package redis

import (
	"errors"
	"math"
	"testing"

	"github.com/redis/rueidis"
	"github.com/regentd/regent"
)

const setLua = `return redis.call('SET', KEYS[1], ARGV[1])`

func fenced(t *testing.T, c rueidis.Client, epoch uint64, key string) {
	t.Helper()
	msg, err := Fence(t.Context(), c, regent.Term{Election: "stargate:leader", Epoch: epoch}, setLua, []string{key}, []string{"done"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := msg.ToString(); err != nil || s != "OK" {
		t.Errorf("the script answers %q, %v", s, err)
	}
}

func stale(t *testing.T, c rueidis.Client, epoch, newest uint64, key string) {
	t.Helper()
	_, err := Fence(t.Context(), c, regent.Term{Election: "stargate:leader", Epoch: epoch}, setLua, []string{key}, []string{"old"})
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
		fenced(t, c, math.MaxUint64, "report")
		stale(t, c, math.MaxUint64-1, math.MaxUint64, "report")
	})
	t.Run("elections_have_fences_of_their_own", func(t *testing.T) {
		if _, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 1}, `redis.call('INCR', KEYS[1])`, []string{"n"}, nil); err != nil {
			t.Error(err)
		}
		if got := ask(t, c, "GET", "n"); got != "1" {
			t.Errorf("n is %q", got)
		}
	})
	t.Run("a_script_sees_its_own_keys_and_arguments", func(t *testing.T) {
		msg, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 2}, `return {#KEYS, #ARGV, KEYS[2], ARGV[1]}`, []string{"a", "b"}, []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := msg.AsStrSlice(); len(got) != 4 || got[2] != "b" || got[3] != "x" {
			t.Errorf("it sees %q", got)
		}
	})
	t.Run("an_error_of_the_script_is_no_stale_epoch", func(t *testing.T) {
		_, err := Fence(t.Context(), c, regent.Term{Election: "other", Epoch: 2}, `return redis.error_reply('STALE bread')`, []string{"a"}, nil)
		var e *regent.StaleError
		if err == nil || errors.As(err, &e) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("there_is_no_epoch_0", func(t *testing.T) {
		if _, err := Fence(t.Context(), c, regent.Term{Election: "other"}, `return 1`, []string{"a"}, nil); err == nil {
			t.Error("it was admitted")
		}
	})
}
