//go:build !unix

package regular

import "io/fs"

// Stranger returns nothing: this system does not tell who owns a file.
func Stranger(fs.FileInfo) string { return "" }
