package poll

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestMatches(t *testing.T) {
	labels := map[string]string{"zone": "a", "gpu": "", "disk": "ssd"}
	for _, c := range []struct {
		name, assign string
		want         bool
	}{
		{"nothing_is_any", "", true},
		{"any", "any", true},
		{"its_name", "node:node-a", true},
		{"another_name", "node:node-b", false},
		{"a_name_with_a_colon_is_another", "node:node-a:1", false},
		{"a_label", "label:zone=a", true},
		{"all_labels", "label:zone=a, disk=ssd", true},
		{"one_label_of_two", "label:zone=a,disk=hdd", false},
		{"an_empty_label", "label:gpu=", true},
		{"an_empty_label_that_is_not_there", "label:tpu=", false},
		{"nonsense", "label:zone", false},
		{"another_form", "region:a", false},
	} {
		t.Run("a_node_"+map[bool]string{true: "matches_", false: "does_not_match_"}[c.want]+c.name, func(t *testing.T) {
			if got := (Poll{Assign: c.assign}).Matches("node-a", labels); got != c.want {
				t.Errorf("%s: %v", c.assign, got)
			}
		})
	}
}

func TestSame(t *testing.T) {
	p := Poll{Name: "a", Kind: "tcp", Target: "x:1", Interval: 1e9, Enabled: true}
	t.Run("since_does_not_count_nor_do_no_options", func(t *testing.T) {
		q := p
		q.Since, q.Options = time.Now(), map[string]string{}
		if !p.Same(q) {
			t.Error("not the same")
		}
	})
	t.Run("every_other_field_counts", func(t *testing.T) {
		for i := range reflect.TypeFor[Poll]().NumField() {
			q := p
			switch v := reflect.ValueOf(&q).Elem().Field(i); v.Interface().(type) {
			case string:
				v.SetString("other")
			case bool:
				v.SetBool(!v.Bool())
			case int, Duration:
				v.SetInt(v.Int() + 1)
			case map[string]string:
				v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
			case time.Time:
				continue
			default:
				t.Fatalf("no value for %v", v.Type())
			}
			if p.Same(q) {
				t.Errorf("%s does not count", reflect.TypeFor[Poll]().Field(i).Name)
			}
		}
	})
}

func TestRedacted(t *testing.T) {
	t.Run("a_poll_is_shown_without_its_secrets_and_stays_as_it_is", func(t *testing.T) {
		p := Poll{Target: "https://me:hush@example.com/a?key=hush", Options: map[string]string{"header.Authorization": "hush", "status": "200", "body": "hush"}}
		data, err := json.Marshal(p.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"name":"","kind":"","target":"https://xxxxx@example.com/a?xxxxx","enabled":false,"options":{"body":"xxxxx","header.Authorization":"xxxxx","status":"200"}}`
		if string(data) != want {
			t.Errorf("got %s", data)
		}
		if p.Options["body"] != "hush" {
			t.Error("the original was changed")
		}
	})
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"10s"`: 10 * time.Second, `"1.5s"`: 1500 * time.Millisecond, `1500`: 1500 * time.Millisecond, `"1500"`: 1500 * time.Millisecond, `0.5`: 500 * time.Microsecond, `"2m"`: 2 * time.Minute,
	} {
		t.Run("a_duration_is_a_text_or_milliseconds_"+text, func(t *testing.T) {
			var d, again Duration
			if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
				t.Fatalf("%v %v", err, d)
			}
			data, _ := json.Marshal(d)
			if err := json.Unmarshal(data, &again); err != nil || again != d {
				t.Errorf("%s is read as %v, %v", data, again, err)
			}
		})
	}
	for _, text := range []string{`""`, `"s"`, `true`, `null`, `{}`, `"1e3"`, `1e3`, `"-"`, `999999999999999999999`} {
		t.Run("nothing_else_is_"+text, func(t *testing.T) {
			var d Duration
			if err := json.Unmarshal([]byte(text), &d); err == nil {
				t.Errorf("got %v", d)
			}
		})
	}
}
