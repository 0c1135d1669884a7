package config

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/regentd/regent/internal/regular"
)

// shortToken is the length below which a token gets a warning: whoever records a signed request could find it by
// trying.
const shortToken = 16

// warnOfSecrets adds warnings about secrets that others can see or guess.
func (r *resolver) warnOfSecrets() {
	warn := func(text string) {
		if text != "" {
			r.Warnings = append(r.Warnings, text)
		}
	}

	if r.TokenFile != "" {
		warn(Exposed("tokenFile", r.TokenFile))
	}
	if r.TLSKey != "" {
		warn(Exposed("tlsKey", r.TLSKey))
	}

	if strings.HasPrefix(r.Origin("store"), "flag") && Redact(r.Store) != r.Store {
		warn("store is given by a flag with a secret in it, so that other users see it in the list of processes: " +
			"use a variable or the file")
	}

	switch from := r.Origin("token"); {
	case r.Token == "":
		return
	case strings.HasPrefix(from, "flag"):
		warn("token is given by a flag, so that other users see it in the list of processes: use tokenFile")
	case strings.HasPrefix(from, "file"):
		warn(Exposed("config, which holds the token,", r.File))
	}

	if len(r.Token) < shortToken {
		warn(fmt.Sprintf("token has %d characters: whoever records a request between nodes can guess it; take at "+
			"least %d, "+
			"at random", len(r.Token), shortToken))
	}
}

// readToken reads the token from tokenFile.
func (r *resolver) readToken() {
	if r.TokenFile == "" || r.Token != "" {
		return
	}

	data, err := r.readFile(r.TokenFile)
	r.Token = strings.TrimSpace(string(data))

	rule := ""
	switch {
	case err != nil:
		rule = "cannot be read: " + err.Error()
	case len(data) > maxToken:
		rule = fmt.Sprintf("must have at most %d bytes", maxToken)
	case r.Token == "":
		rule = "must not be empty"
	}

	if rule != "" {
		r.Token = ""
		r.refuse(finding{key: "tokenFile", value: quote("tokenFile", r.TokenFile), rule: rule}, r.Origin("tokenFile"))
	}

	r.derive("token", "tokenFile")
}

// Exposed returns a warning if users who should not can read or write a file that holds a secret; else nothing. The
// file's group may read it: so a service that does not run as root gets its secret.
func Exposed(key, name string) string {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" {
		return ""
	}

	if owner := regular.Stranger(info); owner != "" {
		return fmt.Sprintf("%s %s belongs to %s, who can read and change it: chown it to the user of the node or "+
			"to root",
			key, name, owner)
	}

	can := "read"
	switch {
	case info.Mode().Perm()&0o027 == 0:
		return ""
	case info.Mode().Perm()&0o022 != 0:
		can = "write"
	}

	return fmt.Sprintf("%s %s has mode %04o: other users can %s it; chmod 600 it, or 640 for a group",
		key, name, info.Mode().Perm(), can)
}
