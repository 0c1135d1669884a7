package check

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// messageMax bounds what one check can add to a record that holds many.
const messageMax = 500

// oneLine returns text that fits in a line of a log or a page: valid UTF-8, without control characters, of at most max bytes.
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

// hidden stands for a secret, as net/url writes it.
const hidden = "xxxxx"

// Redact returns a target without what may be secret: user and password of a URL, and its query.
func Redact(target string) string {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok { // a URL whose scheme was forgotten may hold a password all the same
		if i := strings.LastIndex(target, "@"); i >= 0 && strings.Contains(target[:i], ":") {
			return hidden + target[i:]
		}
		return target
	}
	u, err := url.Parse(target)
	if i := strings.LastIndex(rest, "@"); err != nil && i >= 0 { // what cannot be read is hidden rather too far
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

// Conceal returns the value of an option as it may be shown: headers, variables, and what is sent may be secret.
func Conceal(option, value string) string {
	if strings.HasPrefix(option, "header.") || strings.HasPrefix(option, "env.") || option == "send" || option == "body" || option == "args" {
		return hidden
	}
	return value
}
