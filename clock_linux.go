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

// sinceBoot reads the clock that goes on while the machine is suspended.
func sinceBoot() time.Duration {
	t, _ := gettime(clockBoottime)
	return t
}

// kernelClockIsOurs reports whether the kernel's clocks and Go's are the same time. In a testing/synctest bubble they are years apart.
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
