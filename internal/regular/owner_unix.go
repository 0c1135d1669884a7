//go:build unix

package regular

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Stranger returns "user 1001" if that user owns a file and is neither the user of this process nor root; otherwise an
// empty string. An owner can change a file in spite of its mode.
func Stranger(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return stranger(int(stat.Uid), os.Geteuid())
}

func stranger(owner, self int) string {
	if owner == 0 || owner == self {
		return ""
	}
	return fmt.Sprintf("user %d", owner)
}
