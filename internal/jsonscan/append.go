package jsonscan

import "unicode/utf8"

// AppendString appends s as a JSON string. Like encoding/json, it replaces bytes that are not UTF-8 with U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	if Plain(s) {
		b = append(b, s...)
		return append(b, '"')
	}

	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}

		i++
	}

	return append(b, '"')
}
