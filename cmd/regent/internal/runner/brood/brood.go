// Package brood finds everything that a command has started, and ends it.
//
// What is found, on Linux: every process of the command's process group; every process whose environment carries the command's mark, which
// children inherit and keep when they leave the group (timeout, setsid, a shell with job control, a daemon); every descendant of those;
// and, where this process may make a cgroup, everything in the command's own: see [Brood.Confined].
//
// What is not, where there is no cgroup: a process that has left the group, has cleared its environment (setsid env -i) or runs as another
// user, and whose ancestors up to the group are gone. With a cgroup: a process that was moved out of it, by itself as root or by a service
// manager. So a program that is meant to outlive the command is started by a service manager (systemd-run). Elsewhere than on Linux
// only the process group is known.
package brood

import "crypto/rand"

// MarkVar is the variable in a command's environment that its brood is found by.
const MarkVar = "REGENT_RUN"

// Brood is a command and everything that it has started.
type Brood struct {
	Mark   string `json:"mark"`             // NAME=value, in the environment of each
	Leader int    `json:"leader,omitempty"` // pid of the command, and the number of its process group; 0 if it was not started yet
	Start  uint64 `json:"start,omitempty"`  // when it started, in clock ticks since boot: a pid alone is used again

	// Adopter is the process that adopts orphans of the command, and nobody else's; 0 if there is none. All its children count, but
	// this process.
	Adopter int `json:"adopter,omitempty"`

	Cgroup string `json:"cgroup,omitempty"` // directory of the cgroup that it was started in; empty if it has none
}

// New returns the brood of a command that is yet to be started, with Mark added to its environment.
func New() Brood { return Brood{Mark: MarkVar + "=" + rand.Text()} }
