package sqlite

import (
	"bufio"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
	"golang.org/x/sys/unix"
)

func init() { roles["nosync"] = noSyncRole }

// failSyncs makes every fsync and fdatasync of this process fail with EIO, as those of a broken disk do.
func failSyncs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}

	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}

	filter := []unix.SockFilter{
		load(0), // the number of the system call
		equal(unix.SYS_FSYNC, 2, 0),
		equal(unix.SYS_FDATASYNC, 1, 0),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
	}

	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}

	return nil
}

// noSyncRole writes until the disk does not sync any more, and reports the outcomes of swaps then.
func noSyncRole(_ *bufio.Scanner, args []string) error {
	s, err := Open(background, args[0], Options{})
	if err != nil {
		return err
	}

	// The first write to a log is synced in any case, for its header.
	l, err := s.Swap(background, held("seat", "a", 1))
	if err != nil {
		return err
	}

	if err := failSyncs(); err != nil {
		fmt.Println("skip: this kernel takes no filter:", err)
		return nil
	}

	l.Nonce++
	_, err = s.Swap(background, l)
	fmt.Println("a renewal:", outcome(err))
	l.Nonce, l.Epoch = l.Nonce+1, l.Epoch+1
	_, err = s.Swap(background, l)
	fmt.Println("a claim on a new connection:", outcome(err))

	for _, o := range s.SwapAll(background, []driver.Record{held("b", "a", 1), held("c", "a", 1)}) {
		fmt.Println("a swap of a batch:", outcome(o.Err))
	}
	return nil
}

// outcome returns how a swap ended, from the point of view of its caller.
func outcome(err error) string {
	switch {
	case err == nil:
		return "applied"
	case errors.Is(err, driver.ErrConflict):
		return "refused"
	}
	return "unknown"
}

func TestASwapIsAnsweredOnceTheDiskHasIt(t *testing.T) {
	c := start(t, nil, "nosync", fresh(t).path)
	for _, want := range []string{
		"a renewal: unknown",
		"a claim on a new connection: unknown",
		"a swap of a batch: unknown",
		"a swap of a batch: unknown",
	} {
		line := c.line(t)
		if strings.HasPrefix(line, "skip") {
			t.Skip(line)
		}
		if line != want {
			t.Errorf("while no sync succeeds: %s, want %s", line, want)
		}
	}

	c.wait(t)
}

// A kernel without filters still shows the setting of every connection.
func TestEveryWriterSyncs(t *testing.T) {
	s := fresh(t)
	storetest.Swap(t, s, held("seat", "a", 1))
	another, err := openWriter(s.path)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { another.close() })
	for _, w := range []*writeConn{s.w, another} {
		stmt, err := w.conn.Prepare("PRAGMA synchronous")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()

		rows, err := stmt.(statement).QueryContext(background, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()

		level := make([]sqldriver.Value, 1)
		if err := rows.Next(level); err != nil && err != io.EOF {
			t.Fatal(err)
		}

		if level[0] != int64(2) {
			t.Errorf("synchronous is %v, want FULL (2)", level[0])
		}
	}
}
