package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/driver"
	"golang.org/x/sys/unix"
)

func TestFileSystems(t *testing.T) {
	for magic, name := range map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB/CIFS", 0xff534d42: "SMB/CIFS", 0xfe534d42: "SMB/CIFS", 0x01021997: "9p",
		0x65735546: "FUSE (sshfs, virtiofs, s3fs, ...)", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS",
		0x0bd00bd0: "Lustre",
		0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x47504653: "GPFS",
		// Ext4, xfs, btrfs, tmpfs, overlay, zfs.
		0xef53: "", 0x58465342: "", 0x9123683e: "", 0x01021994: "", 0x794c7630: "", 0x2fc12fc1: "",
	} {
		if got := remote(magic); got != name {
			t.Errorf("%#x is %q, not %q", magic, got, name)
		}
	}
}

// openRole opens and closes a store.
func openRole(_ *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}
	fmt.Println("opened")
	return s.Close()
}

// mountRole opens a database that is a mount point, as a container sees a single file passed in.
func mountRole(_ *bufio.Scanner, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}

	if err := unix.Mount(args[0], args[1], "", unix.MS_BIND, ""); err != nil {
		return err
	}

	_, err := Open(background, args[1], Options{})
	fmt.Println(err)
	return nil
}

// fullRole writes until the disk is full, and again when there is room.
func fullRole(_ *bufio.Scanner, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}

	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=1m"); err != nil {
		return err
	}

	ballast := filepath.Join(args[0], "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o644); err != nil {
		return err
	}

	s, err := Open(background, filepath.Join(args[0], "regent.db"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	l, last := held("seat", "a", 1), driver.Record{}
	for err == nil {
		last = l
		l.Nonce = l.Nonce + 1
		l.Data = make([]byte, len(l.Data)+4096)
		l, err = s.Swap(background, l)
	}

	fmt.Println(errors.Is(err, driver.ErrConflict), err)
	out := s.SwapAll(background, []driver.Record{{Name: "b", Data: make([]byte, 256<<10)}, {Name: "c"}})
	fmt.Println(out[0].Err != nil && out[1].Err != nil && !errors.Is(out[1].Err, driver.ErrConflict), out[1].Err)
	if err := os.Remove(ballast); err != nil {
		return err
	}

	if l, err = s.Get(background, "seat"); err != nil || l.Rev != last.Rev {
		return fmt.Errorf("revision %s after a swap of %s that failed: %w", l.Rev, last.Rev, err)
	}

	l.Nonce++
	_, err = s.Swap(background, l)
	fmt.Println("and then:", err)

	return nil
}

func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}

	c := start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "full", t.TempDir())
	for _, want := range []string{"false ", "true ", "and then: <nil>"} {
		line := c.line(t)
		if t.Log(line); !strings.HasPrefix(line, want) {
			t.Errorf("not %q", want)
		}
	}

	c.wait(t)
}

func TestRefusedPlaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}

	dir, err := os.MkdirTemp("", "regent") // t.TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	open(t, filepath.Join(dir, "regent.db")).Close()
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for fact, name := range map[string]string{"a_file_of_another": "regent.db", "a_directory_of_another": "new.db"} {
		t.Run(fact, func(t *testing.T) {
			c := start(t, nobody, "open", filepath.Join(dir, name))
			if !c.out.Scan() || !strings.Contains(c.out.Text(), "must be able to write") {
				t.Error(c.out.Text())
			}
			t.Log(c.out.Text())
		})
	}

	t.Run("a_file_mounted_without_its_directory", func(t *testing.T) {
		target := filepath.Join(dir, "target.db")
		if err := os.WriteFile(target, nil, 0o644); err != nil {
			t.Fatal(err)
		}

		c := start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "remote", filepath.Join(dir, "regent.db"),
			target)
		if !c.out.Scan() || !strings.Contains(c.out.Text(), "mount point") {
			t.Error(c.out.Text())
		}

		t.Log(c.out.Text())
	})
}
