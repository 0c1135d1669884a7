package driver

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reserved is the prefix of the names that Regent uses itself.
const Reserved = "regent/"

// MemberPrefix is the prefix of the names of member registers.
const MemberPrefix = Reserved + "member/"

// MemberRegister returns the name of the register that a member rewrites at every heartbeat.
func MemberRegister(id string) string { return MemberPrefix + id }

// FloorRegister is the register of the epoch floor of the whole store. It is never removed.
const FloorRegister = Reserved + "floor"

// MaxName is the length of the longest register name in bytes: some store takes no more once the name is escaped.
const MaxName = 250

// ValidName reports whether a store must accept name: 1 to 250 bytes of UTF-8 without control characters.
func ValidName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
