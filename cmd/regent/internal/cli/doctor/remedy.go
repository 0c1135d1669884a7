package doctor

import "github.com/regentd/regent/driver"

// remedies say what to do about what a driver has found wrong.
var remedies = map[driver.Problem]string{
	driver.ProblemLogin:      "give a user and a password that the store accepts, in its address or its variables",
	driver.ProblemPermission: "grant this user what it names: docs/STORES.md lists all that is needed",
	driver.ProblemFile: "let this user write the file and its directory, or run this as the user of the " +
		"nodes",
	driver.ProblemForeign:  "name another database or prefix: what is there is of another program",
	driver.ProblemFull:     "make room for the store: nobody can lead until it takes writes again",
	driver.ProblemReadOnly: "name the primary, or all servers: postgres://a,b/database; or allow writes",
}

// Remedy returns what to do about an error of a store, or otherwise if the driver does not say what is wrong.
func Remedy(err error, otherwise string) string {
	if text := remedies[driver.ProblemOf(err)]; text != "" {
		return text
	}
	return otherwise
}
