package s3

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/regentd/regent"
)

// address is a parsed one.
type address struct {
	bucket        string
	prefix        string // of every key; empty, or with a slash at its end
	region        string
	endpoint      string
	pathStyle     bool
	sse           types.ServerSideEncryption
	kmsKey        string
	writeInterval time.Duration
	text          string // as it was given: there are no secrets in it
}

// String returns the address.
func (a *address) String() string { return a.text }

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_:-][A-Za-z0-9_.:-]*(/[A-Za-z0-9_:-][A-Za-z0-9_.:-]*)*$`)
	regionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
)

// keyNames is what an address may say, for errors.
const keyNames = "region, endpoint, path_style, sse, kms_key, write_interval"

func parseAddress(s string) (*address, error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	if !ok {
		return nil, errors.New("the address must begin with s3://")
	}

	rest, query, _ := strings.Cut(rest, "?")
	if strings.ContainsAny(rest, "@#") || strings.Contains(query, "#") {
		return nil, errors.New("the address must be s3://BUCKET/PREFIX?key=value&…: it has no user, password or " +
			"fragment; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the container " +
			"or the instance")
	}

	a := &address{text: s}
	a.bucket, a.prefix, _ = strings.Cut(rest, "/")
	a.prefix = strings.TrimSuffix(a.prefix, "/")
	if err := a.parseQuery(query); err != nil {
		return nil, err
	}

	if err := a.validate(); err != nil {
		return nil, err
	}

	if a.prefix != "" {
		a.prefix += "/"
	}

	return a, nil
}

func (a *address) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("after the question mark there must be key=value pairs with & between them, and in values " +
			"& is %26, % is %25")
	}

	pathStyle, interval := "", ""
	texts := map[string]*string{
		"region": &a.region, "endpoint": &a.endpoint, "path_style": &pathStyle, "write_interval": &interval,
		"sse": (*string)(&a.sse), "kms_key": &a.kmsKey,
	}
	for key, all := range values {
		text := texts[key]
		switch {
		case text == nil:
			return refuse(key, "…", "is not known; there are "+keyNames) // its value may be a secret
		case len(all) > 1:
			return refuse(key, strings.Join(all, ", "), "must be given once")
		case all[0] == "":
			return refuse(key, "", "must not be empty")
		}

		*text = all[0]
	}

	a.pathStyle = a.endpoint != ""
	if pathStyle != "" {
		if a.pathStyle, err = strconv.ParseBool(pathStyle); err != nil {
			return refuse("path_style", pathStyle, "must be true or false")
		}
	}

	a.writeInterval = knownInterval(a.endpoint)
	if interval != "" {
		if a.writeInterval, err = time.ParseDuration(interval); err != nil || a.writeInterval < 0 {
			return refuse("write_interval", interval, "must be a duration that is not negative, such as 1s")
		}
	}

	return nil
}

// knownInterval returns how often an object may be written at an endpoint whose limit is known. Google Cloud Storage
// and Cloudflare R2 take one write in a second for each object.
func knownInterval(endpoint string) time.Duration {
	u, err := url.Parse(endpoint)
	if err != nil {
		return 0
	}

	host := u.Hostname()
	for _, limited := range []string{"storage.googleapis.com", "r2.cloudflarestorage.com"} {
		if host == limited || strings.HasSuffix(host, "."+limited) {
			return time.Second
		}
	}

	return 0
}

func (a *address) validate() error {
	switch {
	case !bucketName.MatchString(a.bucket) || net.ParseIP(a.bucket) != nil:
		return refuse("bucket", a.bucket, "must have 3 to 63 characters: small letters, digits, and . _ - between them")
	case a.prefix != "" && !prefixName.MatchString(a.prefix):
		return refuse("prefix", a.prefix, "must consist of letters, digits and - _ . : with single slashes between "+
			"parts, and no part may begin with a dot")
	case strings.Contains(a.prefix+"/", suffix+"/"):
		return refuse("prefix", a.prefix, "no part may end in "+suffix)
	case len(a.prefix) > maxPrefix:
		return refuse("prefix", a.prefix, "must have at most "+strconv.Itoa(maxPrefix)+" bytes")
	case a.region != "" && !regionName.MatchString(a.region):
		return refuse("region", a.region, "must be the name of a region, such as eu-central-1")
	}

	for part := range strings.SplitSeq(a.prefix, "/") {
		if len(part) > maxPart {
			return refuse("prefix", a.prefix, "no part may be longer than "+strconv.Itoa(maxPart)+" bytes")
		}
	}

	if err := a.validateEndpoint(); err != nil {
		return err
	}

	return a.validateEncryption()
}

func (a *address) validateEndpoint() error {
	if a.endpoint == "" {
		return nil
	}

	const rule = "must be http://host[:port] or https://host[:port], without a user, a query or a path"
	u, err := url.Parse(a.endpoint)
	switch {
	case err != nil || u.User != nil:
		return refuse("endpoint", "…", rule) // what it holds may be a secret
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Path != "" && u.Path != "/",
		u.RawQuery != "", u.Fragment != "":
		return refuse("endpoint", a.endpoint, rule)
	}

	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("endpoint", a.endpoint, "must have a port from 1 to 65535")
		}
	}

	a.endpoint = strings.TrimSuffix(a.endpoint, "/")
	return nil
}

func (a *address) validateEncryption() error {
	switch a.sse {
	case "", types.ServerSideEncryptionAes256:
		if a.kmsKey != "" {
			return refuse("kms_key", a.kmsKey, "needs sse=aws:kms or sse=aws:kms:dsse")
		}
	case types.ServerSideEncryptionAwsKms, types.ServerSideEncryptionAwsKmsDsse:
	default:
		return refuse("sse", string(a.sse), "must be AES256, aws:kms or aws:kms:dsse")
	}

	return nil
}

func refuse(key, value, rule string) error {
	return &regent.ConfigError{Key: key, Value: strconv.Quote(value), Rule: rule}
}

// redact returns what can be shown of an address that could not be parsed: nothing that might be a secret.
func redact(s string) string {
	rest, ok := strings.CutPrefix(s, "s3://")
	if !ok {
		return "…"
	}

	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}

	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}

	return "s3://" + rest
}
