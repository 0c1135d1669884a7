//go:build !unix

package regular

const (
	noFollow = 0
	noWait   = 0
)
