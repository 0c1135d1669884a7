//go:build !unix

package regular

import "io/fs"

// Stranger returns an empty string: this system does not show who owns a file.
func Stranger(fs.FileInfo) string { return "" }
