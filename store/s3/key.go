package s3

import (
	"strings"
)

const (
	// suffix ends every key of a register, and no part of a key before a slash. So no key is a directory of another,
	// which servers that keep objects as files could not have.
	suffix = ".json"
	// maxPart is how long a part of a key between two slashes gets before it is split: servers that keep objects as
	// files take 255 bytes.
	maxPart = 200
	// split ends a part that was split. No escape has this form.
	split = "!/"
	// maxPrefix is the longest prefix. The longest name has a key of 750 bytes and a few for its parts; S3 takes 1,024.
	maxPrefix = 200
)

// key returns the key of a register.
func (a *address) key(name string) string { return a.prefix + escape(name) + suffix }

// keyPrefix returns what begins the keys of all registers whose names begin with prefix. It may begin others too.
func (a *address) keyPrefix(prefix string) string { return a.prefix + escape(prefix) }

// name returns the register that a key belongs to, and false if the object is none of Regent's registers.
func (a *address) name(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, a.prefix)
	if !ok {
		return "", false
	}

	rest, ok = strings.CutSuffix(rest, suffix)
	if !ok {
		return "", false
	}

	name, ok := unescape(rest)
	return name, ok && name != "" && escape(name) == rest
}

// escape writes a name in characters that every server keeps as they are. How a character is written depends only on
// those before it, so that the escaped form of a prefix begins the escaped form of the name.
func escape(name string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(name)+16)
	start := 0 // of the part after the last slash
	for i := range len(name) {
		c := name[i]
		part := b[start:]
		plain := ordinary(c) && (c != '.' || len(part) > 0)
		if c == '/' {
			plain = len(part) > 0 && !strings.HasSuffix(string(part), suffix)
		}

		size := 1
		if !plain {
			size = 3
		}

		if ends := c == '/' && plain; !ends && len(part)+size > maxPart {
			b = append(b, split...)
			start = len(b)
			plain = ordinary(c) && c != '.'
		}

		if !plain {
			b = append(b, '!', hex[c>>4], hex[c&15])
			continue
		}

		if b = append(b, c); c == '/' {
			start = len(b)
		}
	}

	return string(b)
}

// ordinary reports whether a character of a name stands for itself, apart from where it stands.
func ordinary(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:", c) >= 0
}

// unescape returns the name that escape has written. It takes more than escape writes.
func unescape(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '!':
			b = append(b, s[i])
		case strings.HasPrefix(s[i:], split):
			i += len(split) - 1
		case len(s)-i < 3:
			return "", false
		default:
			hi, ok1 := digit(s[i+1])
			lo, ok2 := digit(s[i+2])
			if !ok1 || !ok2 {
				return "", false
			}

			b = append(b, hi<<4|lo)
			i += 2
		}
	}

	return string(b), true
}

func digit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}

	return 0, false
}
