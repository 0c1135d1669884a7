// Package regent elects a leader over a store that its user already runs.
package regent
