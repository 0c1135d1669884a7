//go:build embedded

package config

const hasEmbedded = true
