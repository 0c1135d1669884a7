//go:build !race

package cores

const raceEnabled = false
