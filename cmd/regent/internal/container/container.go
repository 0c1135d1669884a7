// Package container runs a node as the main process of a container, or right below its init, where the kernel would otherwise end the
// reaper together with the node.
//
// When the first process of a pid namespace ends, the kernel kills all others in it. If that process is the node, a crash ends the
// reaper before it can release anything; if it is an init (tini, docker run --init), the same happens as soon as the init has seen the
// node end. So the node is started as a child: its parent, [Run], stays until the reaper is done. The parent also adopts the orphans
// of duties and programs, and reaps them when they end: nobody else would.
//
// What remains: if the whole container is killed (docker kill, an eviction, its memory limit if that is applied to all processes at
// once), the reaper is killed too, and the lease has to expire.
package container

import "os"

// Command is the hidden command that a node runs under as a child of [Run]: it is followed by the command as it was given.
const Command = "contained"

// Place is where a process stands in its container.
type Place int

// The places.
const (
	Outside  Place = iota // in no container, or below something that lives longer than the node
	First                 // it is the first process itself
	BelowTop              // the first process is its parent, and is no service manager
)

func (p Place) String() string {
	switch p {
	case First:
		return "pid 1"
	case BelowTop:
		return "child of pid 1"
	}
	return "outside"
}

// Adopter returns the pid of the [Run] that this process is a child of, and that its orphans go to; 0 if there is none.
func Adopter() int {
	if len(os.Args) > 1 && os.Args[1] == Command {
		return os.Getppid()
	}
	return 0
}
