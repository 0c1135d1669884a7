//go:build !unix

package regular

const careful = 0
