//go:build !linux

package regent

import "time"

// kernelClockIsOurs: no clock is known here that counts while the machine is suspended. docs/GUARANTEES.md says what that means.
func kernelClockIsOurs() bool { return false }

func sinceBoot() time.Duration { return 0 }
