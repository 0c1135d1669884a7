package regent

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockRealtime = 0
	clockBoottime = 7
)

// sinceBoot returns the time since the machine was started, time in which it was suspended included.
func sinceBoot() time.Duration {
	t, _ := gettime(clockBoottime)
	return t
}

// kernelClockIsOurs reports whether the clocks of the kernel and of Go show the same time. In a testing/synctest bubble
// they are years apart.
func kernelClockIsOurs() bool {
	wall, ok := gettime(clockRealtime)
	if !ok || time.Since(time.Unix(0, int64(wall))).Abs() > time.Hour {
		return false
	}

	_, ok = gettime(clockBoottime)
	return ok
}

func gettime(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
