package redis

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	for in, want := range map[string]address{
		"redis://":             {hosts: []string{"localhost:6379"}},
		"redis://h":            {hosts: []string{"h:6379"}},
		"redis://h:1/5":        {hosts: []string{"h:1"}, db: 5},
		"redis://[::1]:7/":     {hosts: []string{"[::1]:7"}},
		"redis://[::1]":        {hosts: []string{"[::1]:6379"}},
		"redis://:p%40s%2Fs@h": {hosts: []string{"h:6379"}, password: "p@s/s"},
		"redis://u:a:b@h?prefix=x%2F": {hosts: []string{"h:6379"}, user: "u", password: "a:b",
			prefix: "x/"},
		"redis://h1:1,h2,h3:3?cluster=true":    {hosts: []string{"h1:1", "h2:6379", "h3:3"}, cluster: true},
		"redis://s1,s2:2/1?sentinel=m":         {hosts: []string{"s1:26379", "s2:2"}, sentinel: "m", db: 1},
		"redis://s1?sentinel=m&sentinelUser=u": {hosts: []string{"s1:26379"}, sentinel: "m", sentinelUser: "u"},
		"redis://h?replicas=2&replicaTimeout=50ms": {hosts: []string{"h:6379"}, replicas: 2,
			replicaTimeout: 50 * time.Millisecond},
	} {
		got, err := parseAddress(in, Options{})
		if want.replicaTimeout == 0 {
			want.replicaTimeout = time.Second
		}
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v, want %+v", in, got, err, want)
		}
	}

	t.Run("the_address_comes_before_the_options", func(t *testing.T) {
		a, err := parseAddress("redis://x:y@h?prefix=p",
			Options{Username: "u", Password: "p", Prefix: "q", Replicas: 3})
		if err != nil || a.user != "x" || a.password != "y" || a.prefix != "p" || a.replicas != 3 {
			t.Errorf("%+v, %v", a, err)
		}
	})

	for in, says := range map[string]string{
		"http://h":                               "redis://",
		"redis://h/x":                            `database x: database must be a number`,
		"redis://h/1/2":                          "database",
		"redis://h?colour=red":                   `colour "red": colour is not known`,
		"redis://h?cluster=maybe":                `cluster "maybe"`,
		"redis://h?prefix=a&prefix=b":            "once",
		"redis://h?prefix={x}":                   "prefix {x}: prefix must not contain",
		"redis://h1,h2":                          "must be one",
		"redis://h/1?cluster=true":               "database 1",
		"redis://h?cluster=true&sentinel=m":      "sentinel",
		"redis://h:port":                         `host "h:port"`,
		"redis://h?replicas=-1":                  "replicas -1",
		"redis://h?replicas=1&replicaTimeout=0x": "replicaTimeout",
		"redis://h?ca=file":                      "rediss://",
		"rediss://h?ca=/no/such/file":            "/no/such/file",
		"redis://h?sentinelUser=u":               "sentinel=NAME",
		"redis://h#frag":                         "percent-encoded",
	} {
		if _, err := parseAddress(in, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", in, err, says)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	const secret = "s3cret"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	closed := "127.0.0.1:" + strconv.Itoa(freePort())
	cli(t, empty(t), "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
	for _, in := range []string{
		"redis://app:" + secret + "@" + closed, "redis://:" + secret + "@" + closed + "/x", "redis://app:" + secret +
			"@h?unknown=1",
		"redis://app:" + secret + "@" + shared.addr() + "/9999", "redis://wrong:" + secret + "@" + shared.addr(),
		"redis://:" + secret + "/x@" + closed,
		"redis://:" + secret + "?x@" + closed, "redis://:" + secret + "#x@" + closed, "redis://:x/" + secret + "@" +
			closed, "redis://:x?" + secret + "@" + closed,
		"redis://:x?" + secret + "=1@" + closed, "redis://:%zz" + secret + "@" + closed, "redis://:a@" + secret + "@" +
			closed, "redis://app:" + secret + "@h:port",
		"http://app:" + secret + "@h", "app:" + secret + "@h", "redis://" + closed + "?sentinel=m&sentinelPassword=" +
			secret, "redis://h?sentinelPassword=" + secret,
		"redis://h?sentinel_password=" + secret, "redis://h?sentinelPassword=" + secret + "&sentinelPassword=x",
	} {
		s, err := Open(ctx, in, Options{})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", in)
			continue
		}

		if text := fmt.Sprintf("%v %+v %q", err, err, err); strings.Contains(text, secret) {
			t.Errorf("it shows in: %s", text)
		}
	}

	s := open(t, "redis://app:"+secret+"@"+shared.addr()+"/2?prefix=x")
	if got, want := s.String(), "redis://app:***@"+shared.addr()+"/2?prefix=x"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}

	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s.String(), s.String()),
		fmt.Sprintf("%+v", s)} {
		if strings.Contains(text, secret) {
			t.Errorf("it shows in: %s", text)
		}
	}

	cli(t, shared, "ACL", "DELUSER", "app")
}
