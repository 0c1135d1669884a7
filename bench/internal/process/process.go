// Package process starts processes of the bench.
package process

import "os/exec"

// Start starts a process. The channel is closed when it has ended.
func Start(cmd *exec.Cmd) (<-chan struct{}, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}

	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait()
	}()
	return gone, nil
}
