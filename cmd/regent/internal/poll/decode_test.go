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
	const second = Duration(time.Second)
	// web is what the definitions below say, but for the changes of each case.
	web := Poll{
		Name:        "web",
		Kind:        "http",
		Target:      "http://example.com/",
		Interval:    30 * second,
		Timeout:     10 * second,
		Assign:      "any",
		Concurrency: 1,
		Enabled:     true,
	}
	const webJSON = `"kind":"http","target":"http://example.com/","interval":"30s"`
	const webYAML = "kind: http\ntarget: http://example.com/\ninterval: 30s\n"

	for _, c := range []struct {
		name   string
		json   string
		yaml   string
		change func(*Poll)
	}{
		{
			name:   "missing_keys_have_defaults",
			json:   `{` + webJSON + `}`,
			yaml:   webYAML,
			change: func(*Poll) {},
		},
		{
			name: "a_bare_number_is_milliseconds",
			json: `{"kind":"http","target":"http://example.com/","interval":30000,"timeout":1500}`,
			yaml: "{kind: http, target: 'http://example.com/', interval: 30000, timeout: 1500}",
			change: func(p *Poll) {
				p.Timeout = second * 3 / 2
			},
		},
		{
			name: "the_default_timeout_is_no_longer_than_the_interval",
			json: `{"kind":"http","target":"http://example.com/","interval":"5s","concurrency":3}`,
			yaml: "kind: http\ntarget: http://example.com/\ninterval: 5s\nconcurrency: 3",
			change: func(p *Poll) {
				p.Interval = 5 * second
				p.Timeout = 5 * second
				p.Concurrency = 3
			},
		},
		{
			name: "the_default_timeout_leaves_room_for_retries",
			json: `{"kind":"http","target":"http://example.com/","interval":"10s","retries":2}`,
			yaml: "kind: http\ntarget: http://example.com/\ninterval: 10s\nretries: 2",
			change: func(p *Poll) {
				p.Interval = 10 * second
				p.Timeout = 3333 * second / 1000
				p.Retries = 2
			},
		},
		{
			name: "cron_has_the_whole_default_timeout",
			json: `{"kind":"http","target":"http://example.com/","cron":"@daily","timeZone":"Europe/Berlin",` +
				`"retries":10}`,
			yaml: "kind: http\ntarget: http://example.com/\ncron: '@daily'\ntimeZone: Europe/Berlin\nretries: 10",
			change: func(p *Poll) {
				p.Interval = 0
				p.Cron = "@daily"
				p.TimeZone = "Europe/Berlin"
				p.Retries = 10
			},
		},
		{
			name: "a_poll_can_be_disabled",
			json: `{` + webJSON + `,"enabled":false}`,
			yaml: webYAML + "enabled: false",
			change: func(p *Poll) {
				p.Enabled = false
			},
		},
		{
			name:   "the_name_may_be_repeated",
			json:   `{"name":"web",` + webJSON + `}`,
			yaml:   "name: web\n" + webYAML,
			change: func(*Poll) {},
		},
		{
			name: "options_are_strings_in_any_spelling",
			json: `{` + webJSON + `,"options":{"status":200,"redirects":false,"contains":"010"}}`,
			yaml: webYAML + "options: {status: 200, redirects: false, contains: 010}",
			change: func(p *Poll) {
				p.Options = map[string]string{"status": "200", "redirects": "false", "contains": "010"}
			},
		},
		{
			name: "arguments_may_be_a_list",
			json: `{"kind":"exec","target":"true","interval":"30s","options":{"args":["-c","exit 0"]}}`,
			yaml: "kind: exec\ntarget: 'true'\ninterval: 30s\noptions: {args: [-c, exit 0]}",
			change: func(p *Poll) {
				p.Kind = "exec"
				p.Target = "true"
				p.Options = map[string]string{"args": `["-c","exit 0"]`}
			},
		},
		{
			name: "a_registered_kind_has_any_options",
			json: `{"kind":"ldap","target":"dc=example","interval":"30s","options":{"bind":"x"}}`,
			yaml: "kind: ldap\ntarget: dc=example\ninterval: 30s\noptions: {bind: x}",
			change: func(p *Poll) {
				p.Kind = "ldap"
				p.Target = "dc=example"
				p.Options = map[string]string{"bind": "x"}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := web
			c.change(&want)
			p, err := Decode("web", []byte(c.json))
			if err != nil || !reflect.DeepEqual(p, want) {
				t.Errorf("JSON: %v\n got %+v\nwant %+v", err, p, want)
			}

			p, err = fromYAML(t, "web", c.yaml)
			if err != nil || !reflect.DeepEqual(p, want) {
				t.Errorf("YAML: %v\n got %+v\nwant %+v", err, p, want)
			}
		})
	}

	t.Run("a_definition_without_a_place_has_its_name_inside", func(t *testing.T) {
		p, err := Decode("", []byte(`{"name":"web",`+webJSON+`}`))
		if err != nil || !reflect.DeepEqual(p, web) {
			t.Errorf("%v %+v", err, p)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	t.Run("json_of_a_poll_is_read_as_the_same_poll", func(t *testing.T) {
		p := Poll{
			Name:        "web",
			Kind:        "http",
			Target:      "http://example.com/",
			Interval:    Duration(30 * time.Second),
			Timeout:     Duration(10 * time.Second),
			Assign:      "any",
			Concurrency: 1,
			Options:     map[string]string{"header.X": "ü\"", "contains": "<&>"},
			Since:       time.Unix(1_700_000_000, 123456789).UTC(),
		}
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

	t.Run("a_poll_in_a_list_is_enabled_by_default", func(t *testing.T) {
		var all []Poll
		err := json.Unmarshal([]byte(`[{"name":"a"},{"name":"b","enabled":false}]`), &all)
		if err != nil || !all[0].Enabled || all[1].Enabled {
			t.Errorf("%v %+v", err, all)
		}
	})
}

func TestRefusedJSON(t *testing.T) {
	const rest = `"kind":"tcp","target":"localhost:1","interval":"1s"`
	for _, c := range []struct{ name, json, want string }{
		{"nothing", ``, "polls.web {…}: polls.web must be a JSON object: unexpected EOF"},
		{"a_list", `[]`, "must be a JSON object"},
		{"half_an_object", `{"kind":`, "must be a JSON object: unexpected"},
		{"two_objects", `{} {}`, "must be a JSON object: there is more after it"},
		{
			"an_unknown_key",
			`{` + rest + `,"intervall":"2s"}`,
			"polls.web.intervall (set): polls.web.intervall is not a key of a poll, did you mean interval?",
		},
		{
			"a_key_in_another_case",
			`{` + rest + `,"Timeout":"1s"}`,
			"polls.web.Timeout is not a key of a poll, did you mean timeout?",
		},
		{
			"a_key_without_a_similar_one",
			`{` + rest + `,"password":"hush"}`,
			"polls.web.password (set): polls.web.password is not a key of a poll",
		},
		{"a_repeated_key", `{` + rest + `,"kind":"tcp"}`, "polls.web.kind must be set only once"},
		{
			"a_repeated_option",
			`{` + rest + `,"options":{"send":"a","send":"b"}}`,
			"polls.web.options.send must be set only once",
		},
		{
			"null",
			`{` + rest + `,"timeout":null}`,
			"polls.web.timeout null: polls.web.timeout must have a value; leave the key out for the default",
		},
		{
			"a_list_for_a_value",
			`{` + rest + `,"assign":["any"]}`,
			"polls.web.assign […]: polls.web.assign cannot be a list",
		},
		{"a_list_of_objects", `{` + rest + `,"assign":[{}]}`, "polls.web.assign cannot be a list"},
		{
			"an_object_for_a_value",
			`{` + rest + `,"assign":{}}`,
			"polls.web.assign {…}: polls.web.assign cannot be a mapping",
		},
		{
			"an_object_in_the_options",
			`{` + rest + `,"options":{"send":{}}}`,
			"polls.web.options.send cannot be a mapping",
		},
		{"options_that_are_a_string", `{` + rest + `,"options":"send"}`, "polls.web.options must be a mapping"},
		{
			"an_invalid_duration",
			`{"kind":"tcp","target":"localhost:1","interval":"soon"}`,
			`polls.web.interval "soon": polls.web.interval ` + durationRule,
		},
		{
			"a_fraction_for_a_whole_number",
			`{` + rest + `,"retries":1.5}`,
			`polls.web.retries "1.5": polls.web.retries must be a whole number`,
		},
		{
			"an_invalid_boolean",
			`{` + rest + `,"enabled":"maybe"}`,
			`polls.web.enabled "maybe": polls.web.enabled must be true or false`,
		},
		{"an_invalid_time", `{` + rest + `,"since":"now"}`, "polls.web.since must be a time"},
		{
			"another_name",
			`{` + rest + `,"name":"web2"}`,
			`polls.web.name "web2": polls.web.name must be the name that the poll is defined under`,
		},
		{
			"a_definition_that_is_too_long",
			`{` + rest + `,"options":{"send":"` + strings.Repeat("x", 17<<10) + `"}}`,
			"must be at most 16384 bytes",
		},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			_, err := Decode("web", []byte(c.json))
			refused(t, err, c.want)
		})
	}

	t.Run("every_violation_is_reported_at_once", func(t *testing.T) {
		_, err := Decode("web", []byte(`{"kind":"http","target":"ftp://x","interval":"1ms","retries":11,`+
			`"concurrency":0,"assign":"me","options":{"metod":"GET","status":"9"}}`))
		keys := strings.Fields("target options.metod options.status interval retries concurrency assign")
		for _, key := range keys {
			if !strings.Contains(fmt.Sprint(err), "polls.web."+key+" ") {
				t.Errorf("%s is not in %v", key, err)
			}
		}
	})
}

// refused checks that an error is a configuration error with a text, and without the secret hush.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var e *regent.ConfigError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRefusedYAML(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"a_string", "http", "polls.web must be a mapping of keys"},
		{"a_list", "[a]", "polls.web must be a mapping of keys"},
		{"null", "~", "polls.web must be a mapping of keys"},
		{"since", "since: 2026-01-01T00:00:00Z", "polls.web.since is set by the leader"},
		{"a_tag", "kind: !secret x", "polls.web.kind with a tag"},
		{"a_mapping_in_options", "kind: tcp\noptions: {send: {a: b}}", "polls.web.options.send cannot be a mapping"},
		{"an_unknown_key", "kind: tcp\ntimezone: UTC", "did you mean timeZone?"},
		{"a_cycle", "kind: &a [*a]", "polls.web.kind"},
		{"a_cycle_of_mappings", "options: &a {x: *a}", "polls.web.options.x cannot be a mapping"},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			_, err := fromYAML(t, "web", c.yaml)
			refused(t, err, c.want)
		})
	}
}

// FuzzDecode shows that no input makes the decoder panic, and that every accepted poll is valid, has a schedule, and
// survives a round trip through JSON.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"web","kind":"http","target":"http://u:p@x/?q","interval":"30s","options":{"header.A":"b"}}`))
	f.Add([]byte(`{"name":"x","kind":"exec","target":"true","cron":"@daily","timeZone":"UTC",` +
		`"options":{"args":["a",1]}}`))
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
