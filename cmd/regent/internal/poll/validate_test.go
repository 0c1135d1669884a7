package poll

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	const second = Duration(time.Second)
	good := Poll{
		Name:        "web",
		Kind:        "tcp",
		Target:      "localhost:80",
		Interval:    10 * second,
		Timeout:     second,
		Assign:      "any",
		Concurrency: 1,
		Enabled:     true,
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	cron := func(expression, zone string) func(*Poll) {
		return func(p *Poll) {
			p.Interval = 0
			p.Cron = expression
			p.TimeZone = zone
		}
	}

	for _, c := range []struct {
		name   string
		change func(*Poll)
		want   string // the beginning of the error
	}{
		{
			"an_empty_name",
			func(p *Poll) { p.Name = "" },
			`polls."".name "": polls."".name must be 1 to 100 of`,
		},
		{"a_name_with_a_slash", func(p *Poll) { p.Name = "a/b" }, `polls."a/b".name "a/b": `},
		{"a_name_that_URLs_leave_out", func(p *Poll) { p.Name = ".." }, `polls."..".name "..": `},
		{"a_name_that_is_too_long", func(p *Poll) { p.Name = strings.Repeat("x", 101) }, `polls."xx`},
		{
			"no_kind",
			func(p *Poll) { p.Kind = "" },
			`polls.web.kind "": polls.web.kind must be http, tcp, dns, icmp, exec, or`,
		},
		{
			"no_target",
			func(p *Poll) { p.Target = "" },
			`polls.web.target "": polls.web.target must be 1 to 2048 bytes`,
		},
		{
			"a_target_with_a_line_break",
			func(p *Poll) {
				p.Kind = "mine"
				p.Target = "a\nb"
			},
			`polls.web.target "a\nb"`,
		},
		{
			"a_target_of_another_kind",
			func(p *Poll) { p.Target = "localhost" },
			`polls.web.target "localhost": polls.web.target must be host:port`,
		},
		{
			"an_unknown_option",
			func(p *Poll) { p.Options = map[string]string{"exepct": "x"} },
			`polls.web.options.exepct (set): polls.web.options.exepct is no option of kind tcp, did you mean expect?`,
		},
		{
			"a_password_in_a_bad_target",
			func(p *Poll) {
				p.Kind = "http"
				p.Target = "htps://me:hush@x/?hush"
			},
			`polls.web.target "htps://***@x/?***": `,
		},
		{
			"neither_interval_nor_cron",
			func(p *Poll) { p.Interval = 0 },
			`polls.web.interval 0s: polls.web.interval must be 1s to 8760h0m0s, unless cron is set`,
		},
		{
			"both_interval_and_cron",
			func(p *Poll) { p.Cron = "* * * * *" },
			`polls.web.cron "* * * * *": polls.web.cron cannot be combined with interval (10s)`,
		},
		{
			"an_interval_that_is_too_short",
			func(p *Poll) { p.Interval = second - 1e6 },
			`polls.web.interval 999ms: polls.web.interval must be 1s to`,
		},
		{
			"an_interval_that_is_too_long",
			func(p *Poll) { p.Interval = intervalMax + second },
			`polls.web.interval 8760h0m1s: `,
		},
		{
			"an_interval_with_a_fraction_of_a_millisecond",
			func(p *Poll) { p.Interval = 2*second + 1 },
			`polls.web.interval 2.000000001s: polls.web.interval must be whole milliseconds`,
		},
		{
			"a_cron_that_is_never_due",
			cron("0 0 30 2 *", ""),
			`polls.web.cron "0 0 30 2 *": polls.web.cron must match an existing date: it is never due`,
		},
		{
			"a_zone_without_cron",
			func(p *Poll) { p.TimeZone = "UTC" },
			`polls.web.timeZone "UTC": polls.web.timeZone needs cron`,
		},
		{
			"an_unknown_zone",
			cron("@daily", "Europe/Bonn"),
			`polls.web.timeZone "Europe/Bonn": polls.web.timeZone must be the name`,
		},
		{"a_zone_outside_of_the_database", cron("@daily", "../x"), `polls.web.timeZone "../x": `},
		{"the_zone_of_each_machine", cron("@daily", "Local"), `polls.web.timeZone "Local": `},
		{
			"no_timeout",
			func(p *Poll) { p.Timeout = 0 },
			`polls.web.timeout 0s: polls.web.timeout must be 1ms to 24h0m0s`,
		},
		{
			"a_timeout_longer_than_the_interval",
			func(p *Poll) { p.Timeout = 11 * second },
			`polls.web.timeout 11s: polls.web.timeout times 1 + retries (0) is 11s, ` +
				`which must be at most interval (10s) times concurrency (1)`,
		},
		{
			"retries_that_take_longer_than_the_interval",
			func(p *Poll) {
				p.Timeout = 5 * second
				p.Retries = 2
			},
			`polls.web.timeout 5s: polls.web.timeout times 1 + retries (2) is 15s`,
		},
		{
			"too_many_retries",
			func(p *Poll) { p.Retries = 11 },
			`polls.web.retries 11: polls.web.retries must be 0 to 10`,
		},
		{"a_negative_number_of_retries", func(p *Poll) { p.Retries = -1 }, `polls.web.retries -1: `},
		{
			"no_concurrency",
			func(p *Poll) { p.Concurrency = 0 },
			`polls.web.concurrency 0: polls.web.concurrency must be 1 to 100`,
		},
		{"too_much_concurrency", func(p *Poll) { p.Concurrency = 101 }, `polls.web.concurrency 101: `},
		{
			"an_assignment_to_nobody",
			func(p *Poll) { p.Assign = "node:" },
			`polls.web.assign "node:": polls.web.assign must be any, node:NAME, or label:`,
		},
		{"an_assignment_to_half_a_label", func(p *Poll) { p.Assign = "label:a" }, `polls.web.assign "label:a": `},
		{
			"an_assignment_to_a_repeated_label",
			func(p *Poll) { p.Assign = "label:a=1,a=2" },
			`polls.web.assign "label:a=1,a=2": `,
		},
		{
			"a_definition_that_is_too_long",
			func(p *Poll) { p.Options = map[string]string{"send": strings.Repeat("x", 16<<10)} },
			`polls.web (16`,
		},
	} {
		t.Run(c.name+"_is_refused", func(t *testing.T) {
			p := good
			c.change(&p)
			err := p.Validate()
			refused(t, err, c.want)
			if err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) != 1 {
				t.Errorf("more than one rule: %v", err)
			}
		})
	}

	for name, change := range map[string]func(*Poll){
		"an_interval_of_a_second":           func(p *Poll) { p.Interval = second },
		"a_timeout_as_long_as_the_interval": func(p *Poll) { p.Timeout = 10 * second },
		"an_assignment_to_labels":           func(p *Poll) { p.Assign = "label:a=1,b=2" },
		"a_timeout_that_concurrency_leaves_room_for": func(p *Poll) {
			p.Timeout = 20 * second
			p.Concurrency = 2
		},
		"a_long_timeout_of_a_cron": func(p *Poll) {
			cron("@hourly", "")(p)
			p.Timeout = Duration(2 * time.Hour)
		},
	} {
		t.Run(name+"_is_valid", func(t *testing.T) {
			p := good
			change(&p)
			if err := p.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Run("never_break_a_rule", func(t *testing.T) {
		for _, interval := range []time.Duration{time.Second, 1234 * time.Millisecond, 7 * time.Second, time.Hour} {
			for retries := range 11 {
				for _, concurrency := range []int{1, 3, 100} {
					p := Poll{Name: "web", Kind: "mine", Target: "x", Retries: retries, Concurrency: concurrency}
					p.Interval = Duration(interval)
					p = p.WithDefaults()
					if err := p.Validate(); err != nil || p.Timeout > min(p.Interval, DefaultTimeout) {
						t.Errorf("%v %d %d: %v %v", interval, retries, concurrency, p.Timeout, err)
					}
				}
			}
		}
	})
}
