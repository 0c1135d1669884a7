package config

import "strings"

// embeddedScheme begins the address of a store that runs inside the nodes. Not every build has it: it makes the binary
// larger by 15 %.
const embeddedScheme = "etcd+embedded:"

// NoEmbedded says which build has a store that this one has not.
const NoEmbedded = embeddedScheme + " is in the build with an etcd member, " +
	"'make build-embedded' or 'go build -tags embedded'"

// otherBuild returns what to add to the error of a store that another build has.
func otherBuild(store string) string {
	if hasEmbedded || !strings.HasPrefix(store, embeddedScheme) {
		return ""
	}
	return "; " + NoEmbedded
}
