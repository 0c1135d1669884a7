//go:build !linux

package proctree

import "errors"

// Confined returns errors.ErrUnsupported: there are no cgroups here.
func (t Tree) Confined() (Tree, error) { return t, errors.ErrUnsupported }

// Confinable returns errors.ErrUnsupported: there are no cgroups here.
func Confinable() error { return errors.ErrUnsupported }

// Remove does nothing.
func (Tree) Remove() {}
