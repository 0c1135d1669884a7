package s3

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A server that does not answer is named in every error: the SDK names none if a deadline ends the request.
func TestErrorsOfAHungServerNameIt(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	s := unprobed(t, fresh(p.URL))
	p.all(slow(time.Hour))

	for name, call := range map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := s.Get(ctx, "seat")
			return err
		},
		"swap": func(ctx context.Context) error {
			_, err := s.Swap(ctx, held("seat", "a", 1))
			return err
		},
		"list": func(ctx context.Context) error {
			for _, err := range s.List(ctx, "") {
				return err
			}
			return nil
		},
		"open": func(ctx context.Context) error {
			_, err := Open(ctx, fresh(p.URL), Options{Credentials: credentials()})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := call(ctx)
			want := "no answer from " + p.URL + ": context deadline exceeded"
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}

	t.Run("open_ends_without_a_deadline_of_its_caller", func(t *testing.T) {
		done := make(chan error, 1)
		go func() {
			_, err := Open(t.Context(), fresh(p.URL), Options{Credentials: credentials()})
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "no answer from "+p.URL) {
				t.Error(err)
			}
		case <-time.After(45 * time.Second):
			t.Error("it goes on")
		}
	})

	t.Run("open_ends_over_a_server_that_answers_reads_alone", func(t *testing.T) {
		p.set(puts(slow(time.Hour)))
		_, err := openWithin(t.Context(), fresh(p.URL), Options{Credentials: credentials()}, 500*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "no answer from "+p.URL) {
			t.Error(err)
		}
	})
}
