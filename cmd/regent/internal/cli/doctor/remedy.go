package doctor

// Remedy returns what to do about a store that refuses this process.
func Remedy(err error) string {
	text := err.Error()
	for _, r := range []struct {
		words  []string
		advice string
	}{
		{[]string{"WRONGPASS", "NOAUTH", "without any password", "password", "authentication", "InvalidAccessKeyId",
			"SignatureDoesNotMatch"},
			"give a user and a password that the store accepts, in its address or its variables"},
		{[]string{"must be able to write", "readonly", "read-only"},
			"let this user write the file and its directory, or run this as the user of the nodes"},
		{[]string{"user must have", "GRANT ", "NOPERM", "permission", "AccessDenied", "the user must be able to",
			"may not"},
			"grant this user what it names: docs/STORES.md lists all that is needed"},
		{[]string{"use another file", "is not Regent's"}, "name another database: this one is of another program"},
	} {
		if mentions(text, r.words) {
			return r.advice
		}
	}

	return "correct the address, or change the store as the text says"
}
