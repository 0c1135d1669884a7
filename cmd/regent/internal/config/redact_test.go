package config_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/config"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, address, want string }{
		{"a_password_without_a_user", "redis://:hush@host:6379/0", "redis://:***@host:6379/0"},
		{"a_password_with_a_user", "rediss://ada:hush@host", "rediss://ada:***@host"},
		{"a_password_that_should_have_been_encoded", "redis://ada:hu/sh?hu#sh@hush@host/0", "redis://ada:***@host/0"},
		{"a_parameter", "postgres://host/db?user=ada&password=hush&sslmode=require",
			"postgres://host/db?user=ada&password=***&sslmode=require"},
		{"a_parameter_with_an_at_sign", "redis://host:6379?password=hu@hush", "redis://host:***@"},
		{"a_parameter_in_disguise", "s3://bucket/x?secret%41ccessKey=hush", "s3://bucket/x?secret%41ccessKey=***"},
		{"a_parameter_in_two_pieces", "redis://host?sentinelPassword=hu&hush",
			"redis://host?sentinelPassword=***&***"},
		{"an_endpoint_with_a_password", "s3://bucket/x?endpoint=http://ada:hush@minio:9000",
			"s3://bucket/x?endpoint=http:***@minio:9000"},
		{"a_token_in_the_place_of_a_user", "nats://hush@host:4222", "nats://***@host:4222"},
		{"a_password_in_the_place_of_a_user", "redis://hush@host:6379", "redis://***@host:6379"},
		{"a_parameter_that_is_mistyped", "postgres://host/db?pasword=hush&sslmode=require",
			"postgres://host/db?pasword=***&sslmode=require"},
		{"a_setting", "host=x password=hush", "host=***"},
		{"a_setting_with_every_separator", "host=x password=hu:sh@hush://hush?hush=hush", "host=***"},
		{"an_address_without_a_scheme", "ada:hush@host", "ada:***@host"},
		{"a_scheme_without_slashes", "redis:ada:hush@host", "redis:***@host"},
	} {
		t.Run(c.name+"_is_hidden", func(t *testing.T) {
			if got := config.Redact(c.address); got != c.want || strings.Contains(got, "hush") {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}

	for _, same := range []string{
		"", "sqlite:regent.db", "sqlite:/var/lib/a@b:c/regent.db", "memory:",
		"s3://bucket/a@b?endpoint=https://minio:9000&region=eu",
		"postgres://ada@host:5432/db", "etcd://a:2379,b:2379", "nats://a:4222,b:4222/APP", "kube://namespace",
		"redis://host/0?prefix=a&cert=/etc/a.pem",
	} {
		t.Run("without_a_secret_nothing_is_hidden", func(t *testing.T) {
			if got := config.Redact(same); got != same {
				t.Errorf("got %s, want %s", got, same)
			}
		})
	}
}

// FuzzRedact writes a password of every shape into an address. Its letters are all Z, of which there is no other.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"abc", "a/b?c#d@e", "a&b=c;d", "?password=x@", "@&a%=", "%zz", ":@:@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		password := strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?#@&=;:%+ ,", r) {
				return r
			}
			return 'Z'
		}, s)
		for _, address := range []string{
			"redis://ada:" + password + "@host:1/0?prefix=a",
			"nats://" + password + "@host:1",
			"postgres://ada@host/db?password=" + url.QueryEscape(password) + "&sslmode=require",
			"s3://bucket/a?endpoint=http://ada:" + password + "@host",
			"redis://" + strings.ReplaceAll(password, ":", "") + "@host:1",
			"host=h password=" + password + " user=ada",
		} {
			if got := config.Redact(address); strings.Contains(got, "Z") {
				t.Errorf("%s becomes %s", address, got)
			}
		}
	})
}
