// Package container runs a node as the first process of a container, or as a child of its init, in a way that the
// reaper outlives the node.
//
// When the first process of a pid namespace ends, the kernel kills all others in it. If that process is the node, a
// crash ends the reaper before it can release anything. If it is an init (tini, docker run --init), the same happens as
// soon as the init has seen the node end. So the node is started as a child of [Run], which stays until the reaper is
// done. Run also adopts the orphans of duties and programs, and reaps them when they end.
//
// Run cannot help if the whole container is killed (docker kill, an eviction, its memory limit if that is applied to
// all processes at once): the reaper is killed too, and the lease has to expire.
package container

import "os"

// Command is the hidden command of a node that is a child of [Run]. The command that was given follows it.
const Command = "contained"

// Place is the position of a process in its container.
type Place int

// The places.
const (
	Outside  Place = iota // in no container, or below something that lives longer than the node
	First                 // the process is the first one
	BelowTop              // its parent is the first one, and is no service manager
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

// Adopter returns the pid of the [Run] that is the parent of this process and adopts its orphans, or 0 if there is
// none.
func Adopter() int {
	if len(os.Args) > 1 && os.Args[1] == Command {
		return os.Getppid()
	}
	return 0
}
