package config

import (
	"net/url"
	"slices"
	"strings"
)

// hidden stands for a secret, as net/url writes it.
const hidden = "xxxxx"

// Redact returns a store address without its secrets: what follows the first colon of user:password@, and parameters whose names say that
// they are secret. It splits by hand: an address that does not parse may hold a secret all the same, so where a character is ambiguous it
// rather hides too much.
func Redact(address string) string {
	if strings.HasPrefix(address, "memory:") || strings.HasPrefix(address, "sqlite:") {
		return redactQuery(address)
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if ok {
		scheme += "://"
	} else { // a scheme without slashes cannot be told from a user
		scheme, rest = "", address
	}
	clean := redactQuery(rest)
	before, host, user := cutLast(clean, "@")
	if strings.Count(clean, "@") != strings.Count(rest, "@") { // one was in a parameter, so the last does not end user:password
		before, host, user = rest, "", true
	}
	name, _, password := strings.Cut(before, ":")
	token := scheme == "nats://" // where a user by itself is a token
	switch {
	case !user || !password && !token:
		return scheme + clean
	case token:
		return scheme + hidden + "@" + host
	}
	return scheme + name + ":" + hidden + "@" + host
}

// redactQuery hides the values of secret parameters.
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
				params[i], found = name+"="+hidden, true
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

func secretName(name string) bool {
	plain, err := url.QueryUnescape(name)
	if err != nil {
		return true
	}
	plain = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(plain))
	return slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "credential", "signature", "accesskey", "apikey", "privatekey"},
		func(word string) bool { return strings.Contains(plain, word) })
}

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
