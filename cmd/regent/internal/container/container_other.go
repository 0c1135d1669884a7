//go:build !linux

package container

import "errors"

// Where returns Outside: only Linux has pid namespaces.
func Where() Place { return Outside }

// Run returns an error.
func Run([]string, string) (int, error) { return 1, errors.ErrUnsupported }
