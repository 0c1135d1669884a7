//go:build race

package model

// raceEnabled says that steps cost ten times as much. Nothing here runs concurrently, so that the detector has little
// to find.
const raceEnabled = true
