package nats

import (
	"encoding/hex"
	"strings"

	"github.com/regentd/regent/driver"
)

// A stream has three families of subjects, which all begin with its name:
//
//	REGENT.r.orders            the register orders, and r.regent.member.a that of member a
//	REGENT.c.orders            the same message again, once it is stored: what subscribers receive
//	REGENT.b                   the barrier, see [Store.barrier]
//
// A slash in the name of a register becomes a dot, so that permissions and filters can name a part of the registers.
// Letters, digits and - _ : stand for themselves. Every other byte is written as = and two hexadecimal digits, also a
// slash that would make an empty token: at either end, or after another slash.

func (a *address) registers() string { return a.stream + ".r." }

func (a *address) changes() string { return a.stream + ".c." }

func (a *address) barrier() string { return a.stream + ".b" }

const hexDigits = "0123456789ABCDEF"

// encodeName returns a name as tokens of a subject. No two names have the same tokens.
func encodeName(name string) string {
	b := make([]byte, 0, len(name)+16)
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == ':':
			b = append(b, c)
		case c == '/' && i > 0 && i < len(name)-1 && name[i-1] != '/':
			b = append(b, '.')
		default:
			b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// decodeName returns the name that encodeName has written, or false if it writes no name like that.
func decodeName(tokens string) (string, bool) {
	b := make([]byte, 0, len(tokens))
	for i := 0; i < len(tokens); i++ {
		switch c := tokens[i]; c {
		case '.':
			b = append(b, '/')
		case '=':
			if i+3 > len(tokens) {
				return "", false
			}
			raw, err := hex.DecodeString(tokens[i+1 : i+3])
			if err != nil {
				return "", false
			}
			b = append(b, raw...)
			i += 2
		default:
			b = append(b, c)
		}
	}

	name := string(b)
	return name, driver.ValidName(name) && encodeName(name) == tokens
}

// filterOf returns a filter that all registers below a prefix match, and others may.
func (a *address) filterOf(prefix string) string {
	at := strings.LastIndexByte(prefix, '/')
	if at <= 0 {
		return a.registers() + ">"
	}

	// The last slash of the prefix is escaped in a name that has a slash before or after it, or nothing after it. So
	// the filter ends one token before.
	if at = strings.LastIndexByte(prefix[:at], '/'); at <= 0 || prefix[at-1] == '/' {
		return a.registers() + ">"
	}
	return a.registers() + encodeName(prefix[:at]) + ".>"
}
