package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regentd/regent"
)

// fromYAML reads the text of one poll.
func fromYAML(t *testing.T, name, text string) (Poll, error) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return FromYAML(name, doc.Content[0])
}

func TestDecode(t *testing.T) {
	second := Duration(time.Second)
	web := Poll{Name: "web", Kind: "http", Target: "http://example.com/", Interval: 30 * second, Timeout: 10 * second, Assign: "any", Concurrency: 1, Enabled: true}
	with := func(change func(*Poll)) Poll {
		p := web
		change(&p)
		return p
	}
	for _, c := range []struct {
		name, json, yaml string
		want             Poll
	}{
		{"what_is_left_out_has_defaults", `{"kind":"http","target":"http://example.com/","interval":"30s"}`,
			"{kind: http, target: 'http://example.com/', interval: 30s}", web},
		{"a_bare_number_is_milliseconds", `{"kind":"http","target":"http://example.com/","interval":30000,"timeout":1500}`,
			"{kind: http, target: 'http://example.com/', interval: 30000, timeout: 1500}", with(func(p *Poll) { p.Timeout = second * 3 / 2 })},
		{"the_default_timeout_is_no_longer_than_the_interval", `{"kind":"http","target":"http://example.com/","interval":"5s","concurrency":3}`,
			"kind: http\ntarget: http://example.com/\ninterval: 5s\nconcurrency: 3", with(func(p *Poll) { p.Interval, p.Timeout, p.Concurrency = 5*second, 5*second, 3 })},
		{"the_default_timeout_leaves_room_for_retries", `{"kind":"http","target":"http://example.com/","interval":"10s","retries":2}`,
			"kind: http\ntarget: http://example.com/\ninterval: 10s\nretries: 2", with(func(p *Poll) { p.Interval, p.Timeout, p.Retries = 10*second, 3333*second/1000, 2 })},
		{"cron_has_the_whole_default_timeout", `{"kind":"http","target":"http://example.com/","cron":"@daily","timeZone":"Europe/Berlin","retries":10}`,
			"kind: http\ntarget: http://example.com/\ncron: '@daily'\ntimeZone: Europe/Berlin\nretries: 10",
			with(func(p *Poll) { p.Interval, p.Cron, p.TimeZone, p.Retries = 0, "@daily", "Europe/Berlin", 10 })},
		{"a_poll_can_be_disabled", `{"kind":"http","target":"http://example.com/","interval":"30s","enabled":false}`,
			"kind: http\ntarget: http://example.com/\ninterval: 30s\nenabled: false", with(func(p *Poll) { p.Enabled = false })},
		{"the_name_may_be_repeated", `{"name":"web","kind":"http","target":"http://example.com/","interval":"30s"}`,
			"name: web\nkind: http\ntarget: http://example.com/\ninterval: 30s", web},
		{"options_are_texts_however_they_look", `{"kind":"http","target":"http://example.com/","interval":"30s","options":{"status":200,"redirects":false,"contains":"010"}}`,
			"kind: http\ntarget: http://example.com/\ninterval: 30s\noptions: {status: 200, redirects: false, contains: 010}",
			with(func(p *Poll) { p.Options = map[string]string{"status": "200", "redirects": "false", "contains": "010"} })},
		{"arguments_may_be_a_list", `{"kind":"exec","target":"true","interval":"30s","options":{"args":["-c","exit 0"]}}`,
			"kind: exec\ntarget: 'true'\ninterval: 30s\noptions: {args: [-c, exit 0]}",
			with(func(p *Poll) {
				p.Kind, p.Target, p.Options = "exec", "true", map[string]string{"args": `["-c","exit 0"]`}
			})},
		{"a_kind_of_others_has_any_options", `{"kind":"ldap","target":"dc=example","interval":"30s","options":{"bind":"x"}}`,
			"kind: ldap\ntarget: dc=example\ninterval: 30s\noptions: {bind: x}",
			with(func(p *Poll) { p.Kind, p.Target, p.Options = "ldap", "dc=example", map[string]string{"bind": "x"} })},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Decode("web", []byte(c.json))
			if err != nil || !reflect.DeepEqual(p, c.want) {
				t.Errorf("JSON: %v\n got %+v\nwant %+v", err, p, c.want)
			}
			p, err = fromYAML(t, "web", c.yaml)
			if err != nil || !reflect.DeepEqual(p, c.want) {
				t.Errorf("YAML: %v\n got %+v\nwant %+v", err, p, c.want)
			}
		})
	}
	t.Run("a_definition_without_a_place_has_its_name_inside", func(t *testing.T) {
		p, err := Decode("", []byte(`{"name":"web","kind":"http","target":"http://example.com/","interval":"30s"}`))
		if err != nil || !reflect.DeepEqual(p, web) {
			t.Errorf("%v %+v", err, p)
		}
	})
	t.Run("what_is_written_is_read_again_the_same", func(t *testing.T) {
		p := with(func(p *Poll) {
			p.Since, p.Enabled, p.Options = time.Unix(1_700_000_000, 123456789).UTC(), false, map[string]string{"header.X": "ü\"", "contains": "<&>"}
		})
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Decode(p.Name, data)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%v %+v", err, q)
		}
		q = Poll{}
		if err := json.Unmarshal(data, &q); err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%v %+v", err, q)
		}
	})
	t.Run("a_poll_inside_of_something_is_enabled_too", func(t *testing.T) {
		var all []Poll
		if err := json.Unmarshal([]byte(`[{"name":"a"},{"name":"b","enabled":false}]`), &all); err != nil || !all[0].Enabled || all[1].Enabled {
			t.Errorf("%v %+v", err, all)
		}
	})
}

func TestRefusedForms(t *testing.T) {
	rest := `"kind":"tcp","target":"localhost:1","interval":"1s"`
	for _, c := range []struct{ name, json, want string }{
		{"nothing", ``, "polls.web {…}: polls.web must be a JSON object: unexpected EOF"},
		{"a_list", `[]`, "must be a JSON object"},
		{"half_an_object", `{"kind":`, "must be a JSON object: unexpected"},
		{"two_objects", `{} {}`, "must be a JSON object: there is more after it"},
		{"an_unknown_key", `{` + rest + `,"intervall":"2s"}`, "polls.web.intervall (set): polls.web.intervall is not a key of a poll, did you mean interval?"},
		{"a_key_in_another_case", `{` + rest + `,"Timeout":"1s"}`, "polls.web.Timeout is not a key of a poll, did you mean timeout?"},
		{"a_key_that_is_like_none", `{` + rest + `,"password":"hush"}`, "polls.web.password (set): polls.web.password is not a key of a poll"},
		{"a_key_twice", `{` + rest + `,"kind":"tcp"}`, "polls.web.kind must be set only once"},
		{"an_option_twice", `{` + rest + `,"options":{"send":"a","send":"b"}}`, "polls.web.options.send must be set only once"},
		{"null", `{` + rest + `,"timeout":null}`, "polls.web.timeout null: polls.web.timeout must have a value; leave the key out for the default"},
		{"a_list_where_a_value_belongs", `{` + rest + `,"assign":["any"]}`, "polls.web.assign […]: polls.web.assign cannot be a list"},
		{"a_list_of_objects", `{` + rest + `,"assign":[{}]}`, "polls.web.assign cannot be a list"},
		{"an_object_where_a_value_belongs", `{` + rest + `,"assign":{}}`, "polls.web.assign {…}: polls.web.assign cannot be a mapping"},
		{"an_object_in_the_options", `{` + rest + `,"options":{"send":{}}}`, "polls.web.options.send cannot be a mapping"},
		{"options_that_are_a_text", `{` + rest + `,"options":"send"}`, "polls.web.options must be a mapping"},
		{"a_duration_that_is_none", `{"kind":"tcp","target":"localhost:1","interval":"soon"}`, `polls.web.interval "soon": polls.web.interval ` + durationRule},
		{"a_number_that_is_none", `{` + rest + `,"retries":1.5}`, `polls.web.retries "1.5": polls.web.retries must be a whole number`},
		{"a_boolean_that_is_none", `{` + rest + `,"enabled":"maybe"}`, `polls.web.enabled "maybe": polls.web.enabled must be true or false`},
		{"a_time_that_is_none", `{` + rest + `,"since":"now"}`, "polls.web.since must be a time"},
		{"another_name", `{` + rest + `,"name":"web2"}`, `polls.web.name "web2": polls.web.name must be the name that the poll is defined under`},
		{"too_much", `{` + rest + `,"options":{"send":"` + strings.Repeat("x", 17<<10) + `"}}`, "must be at most 16384 bytes"},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			_, err := Decode("web", []byte(c.json))
			var e *regent.ConfigError
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") || !errors.As(err, &e) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, yaml, want string }{
		{"a_poll_that_is_a_text", "http", "polls.web must be a mapping of keys"},
		{"a_poll_that_is_a_list", "[a]", "polls.web must be a mapping of keys"},
		{"a_poll_that_is_nothing", "~", "polls.web must be a mapping of keys"},
		{"since_in_a_file", "since: 2026-01-01T00:00:00Z", "polls.web.since is set by the leader"},
		{"a_tag", "kind: !secret x", "polls.web.kind with a tag"},
		{"a_mapping_in_the_options", "kind: tcp\noptions: {send: {a: b}}", "polls.web.options.send cannot be a mapping"},
		{"an_unknown_key_in_a_file", "kind: tcp\ntimezone: UTC", "did you mean timeZone?"},
		{"a_circle", "kind: &a [*a]", "polls.web.kind"},
		{"a_circle_of_mappings", "options: &a {x: *a}", "polls.web.options.x cannot be a mapping"},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			_, err := fromYAML(t, "web", c.yaml)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("everything_that_is_wrong_is_said_at_once", func(t *testing.T) {
		_, err := Decode("web", []byte(`{"kind":"http","target":"ftp://x","interval":"1ms","retries":11,"concurrency":0,"assign":"me","options":{"metod":"GET","status":"9"}}`))
		for _, key := range []string{"target", "options.metod", "options.status", "interval", "retries", "concurrency", "assign"} {
			if !strings.Contains(fmt.Sprint(err), "polls.web."+key+" ") {
				t.Errorf("%s is not in %v", key, err)
			}
		}
	})
}

// FuzzDecode shows that nothing makes the decoder panic, that what it accepts is valid and has a schedule, and that it is read again the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"web","kind":"http","target":"http://u:p@x/?q","interval":"30s","options":{"header.A":"b"}}`))
	f.Add([]byte(`{"name":"x","kind":"exec","target":"true","cron":"@daily","timeZone":"UTC","options":{"args":["a",1]}}`))
	f.Add([]byte(`{"name":"d","kind":"dns","target":"a.b","interval":1e3,"assign":"label:a=b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode("", data)
		if err != nil {
			return
		}
		if _, err := p.Schedule(); err != nil || p.Validate() != nil {
			t.Fatalf("accepted, but %v %v", err, p.Validate())
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Decode(p.Name, again)
		if len(p.Options) == 0 {
			p.Options = nil // JSON leaves out empty options
		}
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%s: %v %+v", again, err, q)
		}
	})
}
