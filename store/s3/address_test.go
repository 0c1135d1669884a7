package s3

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/regentd/regent/driver"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]address{
		"s3://bucket":                       {bucket: "bucket"},
		"s3://my.bucket-1/":                 {bucket: "my.bucket-1"},
		"s3://bucket/a/b/?region=eu-west-1": {bucket: "bucket", prefix: "a/b/", region: "eu-west-1"},
		"s3://bucket/a?endpoint=http://127.0.0.1:9000": {
			bucket: "bucket", prefix: "a/", endpoint: "http://127.0.0.1:9000", pathStyle: true},
		"s3://bucket?endpoint=https%3A%2F%2Fs3.example.com/&path_style=false": {
			bucket: "bucket", endpoint: "https://s3.example.com"},
		"s3://bucket?sse=aws:kms&kms_key=alias/regent": {bucket: "bucket", sse: "aws:kms", kmsKey: "alias/regent"},
		"s3://bucket?endpoint=https://storage.googleapis.com": {
			bucket: "bucket", endpoint: "https://storage.googleapis.com", pathStyle: true, writeInterval: time.Second},
		"s3://bucket?endpoint=https://0123.eu.r2.cloudflarestorage.com": {
			bucket: "bucket", endpoint: "https://0123.eu.r2.cloudflarestorage.com", pathStyle: true,
			writeInterval: time.Second},
		"s3://bucket?endpoint=https://0123.r2.cloudflarestorage.com&write_interval=0s": {
			bucket: "bucket", endpoint: "https://0123.r2.cloudflarestorage.com", pathStyle: true},
		"s3://bucket?write_interval=2s": {bucket: "bucket", writeInterval: 2 * time.Second},
	} {
		got, err := parseAddress(text)
		if want.text = text; err != nil || *got != want {
			t.Errorf("%s is\n%+v, %v, want\n%+v", text, got, err, want)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"s4://bucket":        "must begin with s3://",
		"s3://":              `bucket "": bucket must have 3 to 63 characters`,
		"s3://Bucket":        `bucket "Bucket": bucket must have`,
		"s3://10.0.0.1/a":    `bucket "10.0.0.1": bucket must`,
		"s3://bucket/a//b":   `prefix "a//b": prefix must consist of`,
		"s3://bucket/../b":   `prefix "../b": prefix must consist of`,
		"s3://bucket/a b":    `prefix "a b": prefix must consist of`,
		"s3://bucket/a.json": `prefix "a.json": prefix no part may end in .json`,
		"s3://bucket/" + strings.Repeat("x", 201):    "must have at most 200 bytes",
		"s3://bucket?region=eu_west":                 `region "eu_west": region must be the name of a region`,
		"s3://bucket?endpoint=127.0.0.1:9000":        "endpoint",
		"s3://bucket?endpoint=ftp://host":            `endpoint "ftp://host": endpoint must be http://host`,
		"s3://bucket?endpoint=http://host/path":      `endpoint "http://host/path": endpoint must be`,
		"s3://bucket?endpoint=http://host:0":         `endpoint "http://host:0": endpoint must have a port`,
		"s3://bucket?endpoint=http://u:hush@host":    `endpoint "…": endpoint must be`,
		"s3://bucket?path_style=perhaps":             `path_style "perhaps": path_style must be true or false`,
		"s3://bucket?path_style=":                    `path_style "": path_style must not be empty`,
		"s3://bucket?sse=rot13":                      `sse "rot13": sse must be AES256, aws:kms or aws:kms:dsse`,
		"s3://bucket?kms_key=alias/a":                `kms_key "alias/a": kms_key needs sse=aws:kms`,
		"s3://bucket?write_interval=soon":            `write_interval "soon": write_interval must be a duration`,
		"s3://bucket?write_interval=-1s":             `write_interval "-1s": write_interval must be a duration`,
		"s3://bucket?region=a&region=b":              `region "a, b": region must be given once`,
		"s3://bucket?secret_key=hush":                `secret_key "…": secret_key is not known; there are region`,
		"s3://key:hush@bucket/a":                     "credentials come from AWS_ACCESS_KEY_ID",
		"s3://bucket/a#hush":                         "credentials come from",
		"s3://bucket?region=%zz&secret_key=hush":     "key=value pairs",
		"s3://bucket?endpoint=http://u:hush%zz@host": "key=value pairs",
	} {
		err := Validate(text)
		if err == nil || !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			continue
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error shows a secret: %v", text, err)
		}
		_, err = Open(t.Context(), text, Options{})
		if err == nil || !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "hush") {
			t.Errorf("Open(%s) = %v", text, err)
		}
	}
}

// What stops Open: each error says what to change, and whether that is of any use.
func TestOpenErrors(t *testing.T) {
	wrong := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: "hush-wrong-secret"}, nil
	})
	for name, c := range map[string]struct {
		addr    string
		opts    Options
		refused bool
		want    string
	}{
		"no_region": {"s3://bucket", Options{Credentials: credentials()}, true,
			`region "": region must be given in the address`},
		"no_credentials": {fresh(shared.endpoint()), Options{}, false,
			"no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"},
		"a_wrong_secret": {fresh(shared.endpoint()), Options{Credentials: wrong}, true, "SignatureDoesNotMatch"},
		"no_such_bucket": {"s3://no-such-bucket?endpoint=" + shared.endpoint(), Options{Credentials: credentials()},
			true, "NoSuchBucket"},
		"nobody_listens": {fresh("http://127.0.0.1:1"), Options{Credentials: credentials()}, false,
			"no answer from http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), c.addr, c.opts)
			if err == nil || errors.Is(err, driver.ErrRefused) != c.refused || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open = %v, want a refusal: %v, %q", err, c.refused, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), secretKey)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	t.Run("no_credentials_are_told_apart_from_a_server_that_does_not_answer", func(t *testing.T) {
		if _, err := Open(t.Context(), fresh(shared.endpoint()), Options{}); !errors.Is(err, driver.ErrCredentials) {
			t.Errorf("Open = %v", err)
		}
		_, err := Open(t.Context(), fresh("http://127.0.0.1:1"), Options{Credentials: credentials()})
		if errors.Is(err, driver.ErrCredentials) {
			t.Errorf("Open = %v", err)
		}
	})
	t.Run("a_policy_without_ListBucket", func(t *testing.T) {
		p := startProxy(t, shared.endpoint())
		p.all(answer(403, "AccessDenied"))
		_, err := Open(t.Context(), fresh(p.URL), Options{Credentials: credentials()})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "s3:ListBucket on the bucket") {
			t.Errorf("Open = %v, want a refusal that says what is needed", err)
		}
	})
}

// What the endpoint of an address allows is known without a request.
func TestWriteInterval(t *testing.T) {
	if s := unprobed(t, fresh(shared.endpoint())+"&write_interval=1s"); s.WriteInterval() != time.Second {
		t.Errorf("the store's write interval is %v", s.WriteInterval())
	}
	for addr, want := range map[string]time.Duration{
		"s3://bucket?endpoint=https://storage.googleapis.com": time.Second, "s3://bucket": 0, "?": 0,
	} {
		if got := WriteInterval(addr); got != want {
			t.Errorf("the write interval of %s is %v, want %v", addr, got, want)
		}
	}
}
