// Package proctree finds every process that a command has started, and ends all of them.
//
// [Tree] says how the processes of one command are recognised. On Linux these belong to a tree:
//
//   - the processes of the command's process group;
//   - the processes whose environment carries the command's mark. Children inherit it, and keep it when they leave the
//     group (timeout, setsid, a shell with job control, a daemon);
//   - all descendants of those;
//   - everything in the command's own cgroup, where this process may make one: see [Tree.Confined].
//
// Without a cgroup, a process escapes if it has left the group, has cleared its environment (setsid env -i) or runs as
// another user, and its ancestors up to the group are gone. With a cgroup, a process escapes if it is moved out of it,
// by itself as root or by a service manager. So a program that is meant to outlive the command is started by a service
// manager (systemd-run).
//
// On other Unix systems only the process group is known. Elsewhere nothing is found.
package proctree

import "crypto/rand"

// MarkVar is the name of the environment variable that marks the processes of a command.
const MarkVar = "REGENT_RUN"

// Tree identifies a command and everything that it has started. It is a value that can be sent to another
// process, which then finds the same processes.
type Tree struct {
	Mark   string `json:"mark"`             // NAME=value, in the environment of each process
	Leader int    `json:"leader,omitempty"` // pid of the command, and of its process group; 0 before its start
	Start  uint64 `json:"start,omitempty"`  // start time in clock ticks since boot: a pid alone is used again

	// Adopter is the process that adopts orphans of the command, and nobody else's; 0 if there is none.
	// All its children belong to the tree, except the process that asks.
	Adopter int `json:"adopter,omitempty"`

	Cgroup string `json:"cgroup,omitempty"` // directory of the command's cgroup; empty if it has none
}

// New returns the tree of a command that is not started yet. Add Mark to the command's environment, start the
// command in a process group of its own (syscall.SysProcAttr.Setpgid), and then call [Tree.Started].
func New() Tree { return Tree{Mark: MarkVar + "=" + rand.Text()} }
