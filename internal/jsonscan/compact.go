package jsonscan

import "encoding/json"

// compactLen returns the length of the JSON value at the beginning of b; 0 if it contains white space or is nested too
// deeply. json.Valid, on every payload and every result, would be a considerable part of the cost of a task.
func compactLen(b []byte, depth int) int {
	if len(b) == 0 || depth > 100 {
		return 0
	}

	switch b[0] {
	case '"':
		return stringLen(b)
	case '{':
		return sequenceLen(b, '}', depth)
	case '[':
		return sequenceLen(b, ']', depth)
	case 't':
		return literalLen(b, "true")
	case 'f':
		return literalLen(b, "false")
	case 'n':
		return literalLen(b, "null")
	}

	return numberLen(b)
}

// sequenceLen is compactLen for an object or an array.
func sequenceLen(b []byte, end byte, depth int) int {
	if len(b) > 1 && b[1] == end {
		return 2
	}

	for i := 1; i < len(b); i++ {
		if end == '}' {
			n := stringLen(b[i:])
			i += n
			if n == 0 || i >= len(b) || b[i] != ':' {
				return 0
			}
			i++
		}

		n := compactLen(b[i:], depth+1)
		i += n
		if n == 0 || i >= len(b) {
			return 0
		}

		if b[i] == end {
			return i + 1
		}

		if b[i] != ',' {
			return 0
		}
	}

	return 0
}

func literalLen(b []byte, text string) int {
	if len(b) < len(text) || string(b[:len(text)]) != text {
		return 0
	}
	return len(text)
}

func stringLen(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}

	for i := 1; i < len(b); {
		if !special[b[i]] {
			i++
			continue
		}

		if b[i] == '"' {
			return i + 1
		}

		n := escapeLen(b[i:])
		if n == 0 {
			return 0
		}

		i += n
	}

	return 0
}

// special are the bytes that end a string, begin an escape, or are not allowed.
var special = func() (is [256]bool) {
	for c := range ' ' {
		is[c] = true
	}
	is['"'], is['\\'] = true, true
	return is
}()

func escapeLen(b []byte) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}

	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}

		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}

	return 0
}

func numberLen(b []byte) int {
	digits := func(i int) int {
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i
	}

	i := 0
	if b[0] == '-' {
		i++
	}

	first := i
	i = digits(i)
	if i == first || i > first+1 && b[first] == '0' {
		return 0
	}

	if i < len(b) && b[i] == '.' {
		first = i + 1
		i = digits(first)
		if i == first {
			return 0
		}
	}

	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		first = i
		i = digits(i)
		if i == first {
			return 0
		}
	}

	return i
}

// Compact reports whether b is one JSON value without insignificant white space.
func Compact(b []byte) bool { return len(b) > 0 && compactLen(b, 0) == len(b) }

// Valid reports whether b is one JSON value.
func Valid(b []byte) bool { return Compact(b) || json.Valid(b) }
