package poll

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRedacted(t *testing.T) {
	t.Run("a_poll_is_shown_without_its_secrets_and_stays_as_it_is", func(t *testing.T) {
		p := Poll{
			Target:  "https://me:hush@example.com/a?key=hush",
			Options: map[string]string{"header.Authorization": "hush", "status": "200", "body": "hush"},
		}
		data, err := json.Marshal(p.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"name":"","kind":"","target":"https://***@example.com/a?***","enabled":false,` +
			`"options":{"body":"***","header.Authorization":"***","status":"200"}}`
		if string(data) != want {
			t.Errorf("got %s", data)
		}
		if p.Options["body"] != "hush" {
			t.Error("the original was changed")
		}
	})
}

func TestSchedule(t *testing.T) {
	for name, p := range map[string]Poll{
		"interval": {Name: "web"},
		"cron":     {Name: "web", Cron: "* * * *"},
		"timeZone": {Name: "web", Cron: "@daily", TimeZone: "Europe/Bonn"},
	} {
		t.Run("an_error_names_the_key_"+name, func(t *testing.T) {
			s, err := p.Schedule()
			if err == nil || !strings.HasPrefix(err.Error(), "polls.web."+name+" ") {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}
