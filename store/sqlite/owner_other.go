//go:build !unix

package sqlite

import "io/fs"

// stranger returns nothing: this system does not tell who owns a file.
func stranger(fs.FileInfo) string { return "" }
