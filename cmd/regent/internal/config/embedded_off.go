//go:build !embedded

package config

const hasEmbedded = false
