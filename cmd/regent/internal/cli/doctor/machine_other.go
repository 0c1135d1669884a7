//go:build !linux

package doctor

// CheckMachine checks what this machine gives a node.
func (r *Report) CheckMachine() {
	r.Add("reaper", Warning, "use Linux",
		"there is no reaper on this system: after a crash a standby takes over when the lease expires")
}
