package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// remote returns the name of a file system, by its statfs type, if other machines may have its files open or if it does
// not support memory shared between processes. It returns an empty string for any other.
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

// checkFileSystem returns an error for a file system on which WAL does not work. The directory must exist, the file
// need not.
func checkFileSystem(path string) error {
	dir := filepath.Dir(path)
	for _, p := range []string{path, dir} {
		var st unix.Statfs_t
		if err := unix.Statfs(p, &st); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("check the file system of %s: %w", p, err)
		}

		if name := remote(uint32(st.Type)); name != "" {
			return fmt.Errorf("%s is on a network file system (%s), where SQLite's WAL does not work: "+
				"put it on a local disk, or use a store that runs as a server", p, name)
		}
	}

	var file, parent unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &file) == nil &&
		unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &parent) == nil &&
		file.Mask&parent.Mask&unix.STATX_MNT_ID != 0 && file.Mnt_id != parent.Mnt_id {
		return fmt.Errorf("%s is a mount point, so processes would not share its -wal and -shm: mount its directory "+
			"%s instead", path, dir)
	}

	return nil
}

// isFile reports whether path still names file. It is os.SameFile without its allocations, because every write calls
// it.
func isFile(path string, file fs.FileInfo) (bool, error) {
	var now unix.Stat_t
	if err := unix.Stat(path, &now); err != nil {
		return false, err
	}
	was, ok := file.Sys().(*syscall.Stat_t)
	return ok && now.Ino == was.Ino && uint64(now.Dev) == uint64(was.Dev), nil
}
