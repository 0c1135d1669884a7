package shell

import (
	"testing"
	"testing/synctest"

	"github.com/regentd/regent/internal/virtual"
)

type todo func()

// Do is for Todo.
func (f todo) Do() { f() }

// A bubble fails if a goroutine is left at its end, so these show as well that Close ends the one that waits.
func TestSpare(t *testing.T) {
	run := func(name string, f func(t *testing.T, s *Shell)) {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s, _ := counted()
				defer s.Close()
				f(t, s)
			})
		})
	}
	waits := func(s *Shell) bool {
		synctest.Wait()
		select {
		case s.spare.handed <- handed{todo: todo(func() {})}:
			return true
		default:
			return false
		}
	}

	run("one_goroutine_waits_for_more", func(t *testing.T, s *Shell) {
		equal(t, "it waits before there was anything", waits(s), false)
		ran := 0
		for range 3 {
			s.Go(todo(func() { ran++ }))
			equal(t, "it waits", waits(s), true)
		}
		equal(t, "calls", ran, 3)
	})

	run("nothing_waits_for_one_that_hangs", func(t *testing.T, s *Shell) {
		hangs := make(chan struct{})
		s.Go(todo(func() {}))
		synctest.Wait()
		s.Go(todo(func() { <-hangs }))
		synctest.Wait()
		ran := false
		s.Go(todo(func() { ran = true }))
		equal(t, "it waits", waits(s), true)
		equal(t, "the other one ran", ran, true)
		close(hangs)
	})

	run("close_does_not_wait_for_one_that_hangs", func(t *testing.T, s *Shell) {
		hangs := make(chan struct{})
		s.Go(todo(func() { <-hangs }))
		synctest.Wait()
		s.Close()
		close(hangs)
		equal(t, "it waits after the end", waits(s), false)
	})
}
