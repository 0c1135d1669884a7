package check_test

import (
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ fact, target, want string }{
		{"a_password_is_hidden", "http://me:hush@x/y", "http://***@x/y"},
		{"a_password_without_a_user_is_hidden", "redis://:hush@x:6379", "redis://***@x:6379"},
		{"a_user_is_hidden", "http://hush@x", "http://***@x"},
		{"a_query_is_hidden", "http://x/y?key=hush", "http://x/y?***"},
		{"an_at_sign_in_a_query_is_no_password", "http://x/y?a@hush", "http://x/y?***"},
		{"a_password_and_an_at_sign_in_a_query", "http://me:hush@x/y?a@hush", "http://***@x/y?***"},
		{"a_password_with_an_at_sign", "http://me:hu@sh@x", "http://***@x"},
		{"a_password_with_a_slash", "http://me:hu/sh@x", "http://***@x"},
		{"a_password_with_a_question_mark", "http://me:hu?sh@x/y", "http://***@x/y"},
		{"a_password_with_a_number_sign", "http://me:hu#sh@x", "http://***@x"},
		{"a_password_with_a_bad_escape", "http://me:hush%zz@x", "http://***@x"},
		{"a_password_with_a_line_break", "http://me:hu\nsh@x", "http://***@x"},
		{"a_password_before_a_bad_port", "http://me:hush@x:port/?hush", "http://***@x:port/?***"},
		{"a_password_behind_a_bad_scheme", "ht tp://me:hush@x", "ht tp://***@x"},
		{"a_password_without_a_scheme", "me:hush@x:80", "***@x:80"},
		{"an_address_is_shown", "[::1]:80", "[::1]:80"},
		{"a_mail_address_is_shown", "me@x", "me@x"},
		{"a_URL_without_secrets_is_shown", "https://x:80/a@b", "https://x:80/a@b"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := check.Redact(c.target); got != c.want {
				t.Errorf("%q is shown as %q, want %q", c.target, got, c.want)
			}
		})
	}
}
