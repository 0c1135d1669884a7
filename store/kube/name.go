package kube

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The name of a Lease is the name of its register, if Kubernetes takes it: coordinator, my-operator.example.com. So an
// election and an elector of client-go with the same name share one Lease. In any other name
//
//   - bytes other than a-z, 0-9 and - are written as a part of their own between dots, x and hexadecimal digits:
//     regent/member/node-a is regent.x2f.member.x2f.node-a;
//   - a part of that form is written so itself: xab is x786162;
//   - a name that becomes too long ends with its hash: a part of z and 52 letters and digits.
//
// No two registers share a Lease: but for the hashed ones, the name can be read back.

var (
	escapePart = regexp.MustCompile(`^x(?:[0-9a-f]{2})+$`)
	hashPart   = regexp.MustCompile(`^z[0-9a-v]{52}$`)
	plainRun   = regexp.MustCompile(`[a-z0-9]+(?:-+[a-z0-9]+)*`)
	hashText   = base32.HexEncoding.WithPadding(base32.NoPadding)
)

// isEscape reports whether a part of a name stands for something else.
func isEscape(part string) bool { return escapePart.MatchString(part) || hashPart.MatchString(part) }

// isPlain reports whether a name is the name of its Lease as it is.
func isPlain(name string) bool {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false
	}
	for part := range strings.SplitSeq(name, ".") {
		if isEscape(part) {
			return false
		}
	}
	return true
}

// leaseName returns the name of the Lease of a register.
func (a *address) leaseName(name string) string {
	front := ""
	if a.prefix != "" {
		front = a.prefix + "."
	}

	lease := front + name
	if !isPlain(name) {
		lease = front + strings.Join(escape(name), ".")
	}
	if len(lease) <= validation.DNS1123SubdomainMaxLength {
		return lease
	}

	sum := sha256.Sum256([]byte(name))
	hash := "z" + strings.ToLower(hashText.EncodeToString(sum[:]))
	begin := lease[:validation.DNS1123SubdomainMaxLength-len(hash)-1]
	return strings.TrimRight(begin, ".-") + "." + hash
}

// escape returns the parts of a name that is not plain.
func escape(name string) (parts []string) {
	special := func(text string) {
		if text != "" {
			parts = append(parts, "x"+hex.EncodeToString([]byte(text)))
		}
	}

	at := 0
	for _, run := range plainRun.FindAllStringIndex(name, -1) {
		special(name[at:run[0]])
		at = run[1]
		if text := name[run[0]:run[1]]; isEscape(text) {
			special(text)
		} else {
			parts = append(parts, text)
		}
	}
	special(name[at:])
	return parts
}

// registerName returns the name of the register of a Lease. ok is false if the Lease is none of this store's, or its
// name was hashed.
func (a *address) registerName(lease string) (name string, ok bool) {
	if a.prefix != "" {
		if lease, ok = strings.CutPrefix(lease, a.prefix+"."); !ok {
			return "", false
		}
	}

	escaped := false
	var text strings.Builder
	for part := range strings.SplitSeq(lease, ".") {
		switch {
		case hashPart.MatchString(part):
			return "", false
		case escapePart.MatchString(part):
			escaped = true
			b, _ := hex.DecodeString(part[1:]) // it has been matched
			text.Write(b)
		default:
			text.WriteString(part)
		}
	}
	if !escaped {
		return lease, true
	}
	return text.String(), true
}
