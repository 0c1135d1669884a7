//go:build !linux

package regent

import "time"

// kernelClockIsOurs returns false: on this system no clock is known that counts while the machine is suspended.
// docs/GUARANTEES.md says what follows from that.
func kernelClockIsOurs() bool { return false }

func sinceBoot() time.Duration { return 0 }
