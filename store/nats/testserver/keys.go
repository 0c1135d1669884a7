package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// writeKeys writes what clients and servers need for two ways to log in, as the tool nsc does:
//
//	one.creds, two.creds    users of an account with JetStream
//	stranger.creds          a user of an account that no server knows
//	jwt.conf, revoked.conf  for a server that knows the account; and of which the first user is revoked
//	user.nk, stranger.nk    keys of users without an account
//	nkey.conf               for a server that knows the first of them
func writeKeys(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w := &keyWriter{dir: dir}
	w.accounts()
	w.users()
	return w.err
}

// keyWriter writes keys until the first error.
type keyWriter struct {
	dir string
	err error
}

func (w *keyWriter) write(name, text string) {
	if w.err == nil {
		w.err = os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600)
	}
}

// key makes a key.
func (w *keyWriter) key(create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string) {
	if w.err != nil {
		return nil, ""
	}
	if key, w.err = create(); w.err == nil {
		public, w.err = key.PublicKey()
	}
	return key, public
}

// sign returns signed claims.
func (w *keyWriter) sign(c jwt.Claims, by nkeys.KeyPair) (text string) {
	if w.err == nil {
		text, w.err = c.Encode(by)
	}
	return text
}

// accounts writes an operator, its accounts, and their users.
func (w *keyWriter) accounts() {
	operator, operatorID := w.key(nkeys.CreateOperator)
	system, systemID := w.key(nkeys.CreateAccount)
	app, appID := w.key(nkeys.CreateAccount)
	stranger, _ := w.key(nkeys.CreateAccount)
	if w.err != nil {
		return
	}

	root := jwt.NewOperatorClaims(operatorID)
	root.SystemAccount = systemID
	w.write("operator.jwt", w.sign(root, operator))
	systemText := w.sign(jwt.NewAccountClaims(systemID), operator)
	_ = system // it has no users

	one := w.user("one.creds", app)
	w.user("two.creds", app)
	w.user("stranger.creds", stranger)

	account := jwt.NewAccountClaims(appID)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	for _, name := range []string{"jwt.conf", "revoked.conf"} {
		if name == "revoked.conf" {
			account.Revoke(one)
		}
		w.write(name, fmt.Sprintf("operator: %q\nresolver: MEMORY\nresolver_preload {\n  %s: %q\n  %s: %q\n}\n",
			filepath.Join(w.dir, "operator.jwt"), systemID, systemText, appID, w.sign(account, operator)))
	}
}

// user writes the credentials of a user of an account, and returns its ID.
func (w *keyWriter) user(name string, account nkeys.KeyPair) (id string) {
	key, id := w.key(nkeys.CreateUser)
	if w.err != nil {
		return ""
	}
	text := w.sign(jwt.NewUserClaims(id), account)
	w.write(name, w.credentials(text, key))
	return id
}

func (w *keyWriter) credentials(text string, key nkeys.KeyPair) string {
	if w.err != nil {
		return ""
	}
	seed, err := key.Seed()
	if err != nil {
		w.err = err
		return ""
	}
	all, err := jwt.FormatUserConfig(text, seed)
	w.err = err
	return string(all)
}

// users writes keys of users that a server lists.
func (w *keyWriter) users() {
	for _, name := range []string{"user", "stranger"} {
		key, id := w.key(nkeys.CreateUser)
		if w.err != nil {
			return
		}
		seed, err := key.Seed()
		w.err = err
		w.write(name+".nk", string(seed)+"\n")
		if name == "user" {
			w.write("nkey.conf", fmt.Sprintf("authorization { users: [ { nkey: %s } ] }\n", id))
		}
	}
}
