package config

import (
	"net/url"
	"slices"
	"strings"
)

// hidden stands for a secret, as net/url writes it.
const hidden = "xxxxx"

// Redact returns the address of a store without its secrets: the password of user:password@, and parameters whose names
// say that they are secret. It does not use net/url: an address that does not parse may hold a secret all the same.
// Where a character is ambiguous, Redact hides too much rather than too little.
func Redact(address string) string {
	if strings.HasPrefix(address, "memory:") || strings.HasPrefix(address, "sqlite:") {
		return redactQuery(address)
	}

	scheme, rest, ok := strings.Cut(address, "://")
	if ok {
		scheme += "://"
	} else { // a scheme without slashes is parsed as a user
		scheme = ""
		rest = address
	}

	clean := redactQuery(rest)
	before, host, user := cutLast(clean, "@")

	if strings.Count(clean, "@") != strings.Count(rest, "@") {
		// One was in a parameter, so the last one does not end user:password.
		before = rest
		host = ""
		user = true
	}

	name, _, password := strings.Cut(before, ":")
	token := scheme == "nats://" // there a user without a password is a token
	switch {
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
			if secret = secretName(name); secret {
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

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
