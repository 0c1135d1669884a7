//go:build !linux

package regent

import "time"

// suspended is unknown here: docs/GUARANTEES.md says what that means.
func suspended() time.Duration { return 0 }
