//go:build unix

package sqlite

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// stranger returns "user 1001" if that user owns a file and is neither the user of this process nor root; otherwise an
// empty string.
func stranger(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("user %d", stat.Uid)
}
