package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/nearest"
)

// hidden stands for a secret, as in the drivers.
const hidden = "***"

// Redact returns the address of a store without its secrets: the password of user:password@, a password in the place of
// a user, the settings of an address such as "host=db password=…", and parameters whose names say that they are secret
// or seem to be mistyped for that. It does not use net/url: an address that does not parse may hold a secret all the
// same. Where a character is ambiguous, Redact hides too much rather than too little.
func Redact(address string) string {
	if strings.HasPrefix(address, "memory:") || strings.HasPrefix(address, "sqlite:") ||
		strings.HasPrefix(address, embeddedScheme) {
		return redactQuery(address)
	}

	scheme, rest, ok := strings.Cut(address, "://")
	if ok && !strings.ContainsAny(scheme, "= ") {
		return redactURL(scheme+"://", rest)
	}

	clean := redactURL("", address) // a scheme without slashes is parsed as a user
	if key, _, settings := strings.Cut(clean, "="); settings {
		return key + "=" + hidden
	}
	return clean
}

// Hides reports whether an address, as [Redact] returns it, lacks a secret.
func Hides(address string) bool { return strings.Contains(address, hidden) }

// redactURL is Redact for an address with a scheme, which ends with slashes.
func redactURL(scheme, rest string) string {
	clean := redactQuery(rest)
	before, host, user := cutLast(clean, "@")

	if strings.Count(clean, "@") != strings.Count(rest, "@") {
		// One was in a parameter, so the last one does not end user:password.
		before = rest
		host = ""
		user = true
	}

	name, _, password := strings.Cut(before, ":")
	redis := scheme == "redis://" || scheme == "rediss://"
	token := scheme == "nats://" || redis && !password // there a user without a password is one, or a password
	switch {
	case redis && user && strings.ContainsAny(name, "?@"): // this is no name, whatever it is
		return scheme + hidden
	case !user || !password && !token:
		return scheme + clean
	case token:
		return scheme + hidden + "@" + host
	}

	return scheme + name + ":" + hidden + "@" + host
}

// redactQuery returns an address with the values of secret parameters hidden.
func redactQuery(s string) string {
	head, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}

	params := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	secret, found := false, false
	for i, param := range params {
		name, _, ok := strings.Cut(param, "=")
		switch {
		case ok:
			if secret = secretName(name) || mistyped(name); secret {
				params[i] = name + "=" + hidden
				found = true
			}
		case secret: // the rest of a value in which & was not encoded
			params[i] = hidden
		}
	}

	if !found {
		return s
	}
	return head + "?" + strings.Join(params, "&")
}

// secretName reports whether the name of a parameter or variable says that its value is secret.
func secretName(name string) bool {
	plain, err := url.QueryUnescape(name)
	if err != nil {
		return true
	}

	plain = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(plain))
	secret := []string{
		"pass", "pwd", "secret", "token", "credential", "signature", "accesskey", "apikey", "privatekey",
	}

	return slices.ContainsFunc(secret, func(word string) bool { return strings.Contains(plain, word) })
}

// mistyped reports whether the name of a parameter seems to be a mistyped password.
func mistyped(name string) bool {
	return nearest.Name(name, []string{"password", "passwd", "sentinelPassword"}) != ""
}

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
