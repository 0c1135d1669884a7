package check

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// messageMax bounds the part of one check in a record that holds many.
const messageMax = 500

// oneLine returns a text for a line of a log or a page: valid UTF-8, without control characters, of at most max bytes.
func oneLine(s string, max int) string {
	s = s[:min(len(s), 4*max)] // an answer can be long
	s = strings.ToValidUTF8(s, "�")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if len(s) <= max {
		return s
	}

	const more = "…"
	end := max - len(more)
	for !utf8.RuneStart(s[end]) {
		end--
	}

	return s[:end] + more
}

// hidden replaces a secret, as in addresses of stores.
const hidden = "***"

// Redact returns a target without its possible secrets: user and password of a URL, and its query.
func Redact(target string) string {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok { // a URL without its scheme may hold a password all the same
		if i := strings.LastIndex(target, "@"); i >= 0 && strings.Contains(target[:i], ":") {
			return hidden + target[i:]
		}
		return target
	}

	u, err := url.Parse(target)
	// if it cannot be parsed, hide too much rather than too little
	if i := strings.LastIndex(rest, "@"); err != nil && i >= 0 {
		rest = hidden + rest[i:]
	}

	rest, _, query := strings.Cut(rest, "?")
	if i := strings.LastIndex(rest, "@"); err == nil && u.User != nil && i >= 0 {
		rest = hidden + rest[i:]
	}
	if query {
		rest += "?" + hidden
	}

	return scheme + "://" + rest
}

// Conceal returns the value of an option, or [hidden] for headers, variables, and what is sent.
func Conceal(option, value string) string {
	switch {
	case strings.HasPrefix(option, "header."), strings.HasPrefix(option, "env."):
		return hidden
	case option == "send", option == "body", option == "args":
		return hidden
	}

	return value
}
