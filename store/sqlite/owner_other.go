//go:build !unix

package sqlite

import "io/fs"

// stranger returns an empty string: this system does not show who owns a file.
func stranger(fs.FileInfo) string { return "" }
