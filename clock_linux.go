package regent

import (
	"syscall"
	"time"
	"unsafe"
)

// suspended is how long the machine has been suspended since boot: CLOCK_BOOTTIME goes on then, CLOCK_MONOTONIC does not.
// The first is read first, so that being preempted in between makes the answer smaller, never larger.
func suspended() time.Duration {
	boot, ok := gettime(7)
	if !ok {
		return 0
	}
	mono, _ := gettime(1)
	return boot - mono
}

func gettime(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
