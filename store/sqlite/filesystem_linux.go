package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// remote names a file system whose files other machines may have open, or that keeps no memory shared between processes, by
// the number that statfs gives it; empty for any other.
func remote(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "SMB/CIFS"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE (sshfs, virtiofs, s3fs, ...)"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "AFS"
	case unix.CODA_SUPER_MAGIC:
		return "Coda"
	case unix.NCP_SUPER_MAGIC:
		return "NCP"
	case unix.OCFS2_SUPER_MAGIC:
		return "OCFS2"
	case 0x01161970:
		return "GFS2"
	case 0x0bd00bd0:
		return "Lustre"
	case 0x47504653:
		return "GPFS"
	case 0x20030528:
		return "OrangeFS"
	case 0x19830326:
		return "BeeGFS"
	case 0xaad7aaea:
		return "PanFS"
	case 0xbeefdead:
		return "StorNext"
	case 0x61636673:
		return "ACFS"
	case 0x786f4256:
		return "VirtualBox shared folder"
	case 0xbacbacbc:
		return "VMware shared folder"
	case 0x7c7c6673:
		return "Parallels shared folder"
	}
	return ""
}

// checkFileSystem refuses what WAL does not work on. The file need not be there yet; its directory is.
func checkFileSystem(path string) error {
	dir := filepath.Dir(path)
	for _, p := range []string{path, dir} {
		var st unix.Statfs_t
		if err := unix.Statfs(p, &st); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("look at the file system of %s: %w", p, err)
		}
		if name := remote(uint32(st.Type)); name != "" {
			return fmt.Errorf("%s is on %s, and SQLite's WAL needs memory that all its processes share: "+
				"put it on a local disk of one host, or take a store with a server (redis, postgres, etcd, nats, s3)", p, name)
		}
	}
	var file, parent unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &file) == nil && unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &parent) == nil &&
		file.Mask&parent.Mask&unix.STATX_MNT_ID != 0 && file.Mnt_id != parent.Mnt_id {
		return fmt.Errorf("%s is a mount of its own, so that its -wal and -shm would not be shared with it: mount its directory %s instead", path, dir)
	}
	return nil
}

// isFile reports whether path still leads to file. It is os.SameFile without its allocations: every write asks.
func isFile(path string, file fs.FileInfo) (bool, error) {
	var now unix.Stat_t
	if err := unix.Stat(path, &now); err != nil {
		return false, err
	}
	was, ok := file.Sys().(*syscall.Stat_t)
	return ok && now.Ino == was.Ino && uint64(now.Dev) == uint64(was.Dev), nil
}
