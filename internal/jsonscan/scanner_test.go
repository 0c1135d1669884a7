package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/regentd/regent/internal/jsonscan"
)

func TestScanner(t *testing.T) {
	t.Run("known_keys_in_order_are_read", func(t *testing.T) {
		s := jsonscan.New([]byte(`{"a":"x","b":12,"c":[1,2],"d":{"e":[]}}`))
		s.Want(`{"a":`)
		a := string(s.Text())
		s.Want(`,"b":`)
		b := s.Number()
		s.Want(`,"c":[`)

		var c []uint64
		s.List(2, func() { c = append(c, s.Number()) })
		s.Want(`,"d":`)
		d := string(s.Value())
		s.Want("}")

		if !s.Done() || a != "x" || b != 12 || len(c) != 2 || c[1] != 2 || d != `{"e":[]}` {
			t.Error(s.Done(), a, b, c, d)
		}
	})

	list := func(s *jsonscan.Scanner) { s.Want("["); s.List(2, func() { s.Number() }) }
	for name, c := range map[string]struct {
		text string
		read func(*jsonscan.Scanner)
	}{
		"an_escape":                 {`"a\n"`, func(s *jsonscan.Scanner) { s.Text() }},
		"a_byte_that_is_not_ASCII":  {`"ä"`, func(s *jsonscan.Scanner) { s.Text() }},
		"a_string_without_an_end":   {`"a`, func(s *jsonscan.Scanner) { s.Text() }},
		"a_string_without_a_start":  {`a"`, func(s *jsonscan.Scanner) { s.Text() }},
		"a_number_without_digits":   {`x`, func(s *jsonscan.Scanner) { s.Number() }},
		"a_number_that_begins_by_0": {`01`, func(s *jsonscan.Scanner) { s.Number() }},
		"a_number_of_19_digits":     {strings.Repeat("9", 19), func(s *jsonscan.Scanner) { s.Number() }},
		"a_value_with_a_blank":      {`[1, 2]`, func(s *jsonscan.Scanner) { s.Value() }},
		"a_list_that_is_too_long":   {`[1,2,3]`, list},
		"a_list_without_an_end":     {`[1,2`, list},
		"a_list_with_a_comma_more":  {`[1,]`, list},
		"something_that_follows":    {`1 `, func(s *jsonscan.Scanner) { s.Number() }},
		"another_text":              {`{"b":`, func(s *jsonscan.Scanner) { s.Want(`{"a":`) }},
		"what_was_given_up":         {``, func(s *jsonscan.Scanner) { s.Fail() }},
	} {
		t.Run(name+"_is_left_to_encoding_json", func(t *testing.T) {
			s := jsonscan.New([]byte(c.text))
			if c.read(&s); s.Done() {
				t.Errorf("%s was read", c.text)
			}
		})
	}
}

// FuzzValid shows that values are what encoding/json says they are.
func FuzzValid(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"a":[1,-2.5e+3,"\u00e4\n",true,null,{}]}`, `[1,]`, `{1:2}`, `01`, `1.`, `1e`, `-`, `"\x"`, ` 1`,
	} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		if jsonscan.Compact(b) && !json.Valid(b) {
			t.Fatalf("%q is no JSON", b)
		}

		if jsonscan.Valid(b) != json.Valid(b) {
			t.Fatalf("%q: JSON or not", b)
		}

		s := jsonscan.New(b)
		if v := s.Value(); s.Done() && string(v) != string(b) {
			t.Fatalf("%q was read as %q", b, v)
		}
	})
}
